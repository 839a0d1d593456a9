use super::{Baseline, Eig, King, Level, Queen};
use crate::adversaries::{Setting, Strategy};
use crate::runs::{Failure, Protocol, Tally, Violation, campaign, exhaustive, trial};
use fulmar_node::Random;

/// Runs plans of every strategy, and says which break it.
fn plans<P: Protocol<Value = u8>>(protocol: &P, n: usize, t: usize, seeds: u64) -> Vec<Failure<u8>> {
    let setting = Setting { n, t, values: vec![0, 1, 2], rounds: 3 * (t + 1) };
    let mut tally = Tally::default();
    campaign(protocol, &setting, 0..seeds, &mut tally);
    assert_eq!(tally.runs, seeds);
    tally.failures
}

#[test]
fn eig_agrees_when_less_than_a_third_lie() {
    let eig = Baseline::<Eig<u8>>::default();
    for (n, t, seeds) in [(4, 1, 4_000), (5, 1, 1_000), (7, 2, 1_000), (10, 3, 20)] {
        assert_eq!(plans(&eig, n, t, seeds), [], "{t} of {n}");
    }
}

/// Pease, Shostak and Lamport 1980: no protocol does it for n = 3t.
#[test]
fn eig_fails_when_a_third_lie() {
    let eig = Baseline::<Eig<u8>>::default();
    for (n, t) in [(3, 1), (6, 2)] {
        let failures = plans(&eig, n, t, 2_000);
        let is_disagreement =
            |failure: &Failure<u8>| matches!(failure.violation, Violation::Disagreement { .. });
        assert!(failures.iter().any(is_disagreement), "{failures:?}");
    }
}

#[test]
fn king_agrees_when_less_than_a_third_lie() {
    let king = Baseline::<King<u8>>::default();
    for (n, t) in [(4, 1), (7, 2), (10, 3), (31, 10)] {
        assert_eq!(plans(&king, n, t, 2_000), [], "{t} of {n}");
    }
    let broken = [(3, 1), (6, 2)].map(|(n, t)| plans(&king, n, t, 2_000));
    assert!(broken.iter().all(|failures| !failures.is_empty()), "{broken:?}");
}

#[test]
fn queen_agrees_when_less_than_a_quarter_lie() {
    let queen = Baseline::<Queen<u8>>::default();
    for (n, t) in [(5, 1), (9, 2), (13, 3), (29, 7)] {
        assert_eq!(plans(&queen, n, t, 2_000), [], "{t} of {n}");
    }
    let broken = [(4, 1), (8, 2)].map(|(n, t)| plans(&queen, n, t, 2_000));
    assert!(broken.iter().all(|failures| !failures.is_empty()), "{broken:?}");
}

#[test]
fn baselines_take_the_rounds_and_values_that_they_should() {
    let setting = Setting { n: 7, t: 2, values: vec![0, 1, 2], rounds: 3 };
    let plan = Strategy::Silence.plan_of(&setting, 0, &mut Random::new(1));
    let eig = trial(&Baseline::<Eig<u8>>::default(), &setting, &plan).expect("all are correct");
    assert_eq!((eig.halted, eig.measures.most_nodes), (3, 1 + 7 + 7 * 6 + 7 * 6 * 5));
    // A length of eight bytes, and of the last level the sequences without the sender.
    assert_eq!(eig.measures.longest_message, 8 + 6 * 5);
    let king = trial(&Baseline::<King<u8>>::default(), &setting, &plan).expect("all are correct");
    assert_eq!((king.halted, king.measures.longest_message), (9, 2));
    let setting = Setting { t: 1, ..setting };
    let queen = trial(&Baseline::<Queen<u8>>::default(), &setting, &plan).expect("all are correct");
    assert_eq!((queen.halted, queen.measures.longest_message), (4, 2));
}

#[test]
fn eig_agrees_whatever_one_of_four_says() {
    let setting = Setting { n: 4, t: 1, values: vec![0, 1, 2], rounds: 2 };
    let of = |length: u32| {
        let messages = (0..3_u8.pow(length)).map(|number| {
            let digits = (0..length).map(|place| number / 3_u8.pow(place) % 3);
            Some(Level(digits.collect()))
        });
        messages.chain([None]).collect::<Vec<_>>()
    };
    let messages = [of(1), of(3)];
    let coverage = exhaustive(&Baseline::<Eig<u8>>::default(), &setting, 2, &messages, (0, 20));
    assert_eq!(coverage.map(|coverage| coverage.runs), Ok(27 * 4_u64.pow(3) / 20 * 28 * 28));
}
