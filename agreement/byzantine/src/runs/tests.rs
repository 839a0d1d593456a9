use super::{EarlyStopping, Failure, Tally, campaign, exhaustive, hunt};
use crate::adversaries::Setting;
use crate::{Decision, Defect};

type Broken = Vec<Failure<Decision<u8>>>;

fn setting(n: usize) -> Setting<Decision<u8>> {
    Setting::optimal(n, vec![Decision::Bottom, Decision::Value(1), Decision::Value(2)])
}

/// What breaks of so many plans with `n` processes.
fn broken(protocol: &EarlyStopping<u8>, n: usize, seeds: u64) -> Broken {
    let mut tally = Tally::default();
    campaign(protocol, &setting(n), 0..seeds, &mut tally);
    assert_eq!(tally.runs, seeds);
    tally.failures
}

/// What breaks of the plan with this seed.
fn replayed(protocol: &EarlyStopping<u8>, n: usize, seed: u64) -> Broken {
    let mut tally = Tally::default();
    campaign(protocol, &setting(n), seed..seed + 1, &mut tally);
    tally.failures
}

#[test]
fn agreement_holds_against_every_strategy() {
    for (n, seeds) in
        [(4, 2_000), (5, 500), (6, 500), (7, 1_000), (8, 300), (9, 300), (10, 300), (13, 40), (16, 10)]
    {
        assert_eq!(broken(&EarlyStopping::default(), n, seeds), []);
    }
}

/// One part in 700 of what `cargo xtask soak --full` runs.
#[test]
fn agreement_holds_whatever_one_of_four_says() {
    let (protocol, setting) = (EarlyStopping::default(), setting(4));
    for liar in 0..4 {
        let messages = [1, 2].map(|round| protocol.every_message(&setting, liar, round));
        // Three values or none of the root; the same of each of three nodes; or no message.
        assert_eq!(messages.each_ref().map(Vec::len), [5, 65]);
        let coverage = exhaustive(&protocol, &setting, liar, &messages, (0, 700));
        assert_eq!(coverage.map(|coverage| coverage.runs), Ok(27 * 125 / 700 * 65 * 65));
    }
}

#[test]
fn a_search_makes_larger_trees_than_chance() {
    let (protocol, setting) = (EarlyStopping::default(), setting(10));
    let (mut random, mut searched) = (Tally::default(), Tally::default());
    campaign(&protocol, &setting, 0..100, &mut random);
    hunt(&protocol, &setting, 0..1, 100, &mut searched);
    assert_eq!(searched.failures, []);
    assert!(searched.most[&10].most_nodes > random.most[&10].most_nodes, "{searched:?}");
}

/// Plans that broke theorem 2 while SPECIAL-BOT was applied a round earlier, at once, or in the last round.
#[test]
fn what_was_broken_holds() {
    for (n, seed) in [(10, 212), (10, 360), (13, 701), (22, 548), (22, 627), (25, 94), (25, 208)] {
        assert_eq!(replayed(&EarlyStopping::default(), n, seed), []);
    }
}

#[test]
fn broken_rules_are_found() {
    for defect in [Defect::NoColouring, Defect::FewerVoters] {
        assert!(!broken(&EarlyStopping::planted(defect), 7, 400).is_empty(), "{defect:?}");
    }
    assert_eq!(replayed(&EarlyStopping::default(), 16, 91), []);
    assert!(!replayed(&EarlyStopping::planted(Defect::NoSpecialBot), 16, 91).is_empty());
}
