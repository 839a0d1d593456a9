//! Runs of a few processes.

use crate::check::{Checker, Violation};
use crate::{Agreement, Claims, Defect, Message, Synchronous, Wire};
use fulmar_node::Random;

/// What a liar says to `to` in a round in which an honest process in its place would have said `honest`.
type Liar<'a> = &'a mut dyn FnMut(u32, usize, usize, &Message<u8>) -> Option<Message<u8>>;

/// What is run.
#[derive(Clone, Copy, Debug)]
enum Variant {
    /// The protocol.
    Whole,
    /// One with a rule broken.
    Broken(Defect),
    /// With D_φ in place of D_t; the last t − φ processes are silent, and known to be.
    Phi(usize),
}

/// Runs processes with `inputs`, of which those from `correct` on lie, and checks them after every round.
fn run(
    t: usize,
    correct: usize,
    inputs: &[Option<u8>],
    variant: Variant,
    lie: Liar<'_>,
) -> Result<Vec<Agreement<u8>>, Violation> {
    let n = inputs.len();
    let phi = if let Variant::Phi(phi) = variant { phi } else { t };
    let known = (0..).take(n).skip(n - (t - phi)).collect();
    let new = |me: usize| {
        let process = Agreement::new(n, t, me, inputs[me]).expect("n > 3t");
        match variant {
            Variant::Whole => process,
            Variant::Broken(defect) => process.planted(defect),
            Variant::Phi(phi) => process.with_phi(phi, known),
        }
    };
    let mut processes = (0..n).map(new).collect::<Vec<_>>();
    let mut checker = Checker::new(t, (0..).zip(inputs.iter().copied()).take(correct).collect());
    checker.phi = phi;
    for round in (1..).take(t + 1) {
        let send = |process: &mut Agreement<u8>| (!process.has_halted()).then(|| process.send(round));
        let sent = processes.iter_mut().map(send).collect::<Vec<_>>();
        for (to, process) in processes.iter_mut().enumerate() {
            let mut messages = sent.clone();
            if to < correct {
                for (liar, message) in messages.iter_mut().enumerate().skip(correct) {
                    let honest = sent[liar].as_ref().filter(|_| liar < n - (t - phi));
                    *message = honest.and_then(|honest| lie(round, liar, to, honest));
                }
            }
            process.receive(round, &messages);
        }
        checker.round(round, &sent, &processes)?;
    }
    processes.truncate(correct);
    Ok(processes)
}

#[test]
fn all_correct_with_one_value_are_done_in_a_round() {
    let processes =
        run(2, 7, &[Some(3); 7], Variant::Whole, &mut |_, _, _, _| None).expect("nothing is violated");
    assert!(processes.iter().all(|process| process.halted() == Some(1)));
}

#[test]
fn all_correct_with_many_values_are_done_in_two() {
    let inputs = [Some(3), Some(2), Some(3), Some(1), None, Some(3), Some(2)];
    let processes = run(2, 7, &inputs, Variant::Whole, &mut |_, _, _, _| None).expect("nothing is violated");
    assert!(processes.iter().all(|process| process.halted() == Some(2)));
}

#[test]
fn silent_processes_do_no_harm() {
    for (n, t) in [(4_u8, 1_usize), (7, 2), (10, 3), (25, 8)] {
        for f in 0..=t {
            let inputs = (0..n).map(|p| Some(p % 2)).collect::<Vec<_>>();
            run(t, usize::from(n) - f, &inputs, Variant::Whole, &mut |_, _, _, _| None)
                .expect("nothing is violated");
        }
    }
}

/// A run whose liars each follow a plan of their own: what rounds and what processes they lie to, about what, and how.
fn random(n: usize, t: usize, variant: Variant, seed: u64) -> Result<(), Violation> {
    let mut random = Random::new(seed);
    let f = if random.one_in(2) { t } else { random.index(t + 1) };
    let value = |random: &mut Random| [Some(0), Some(1), Some(2), None][random.weighted(&[4, 3, 1, 1])];
    let common = random.one_in(4);
    let first = value(&mut random);
    let inputs = (0..n).map(|_| if common { first } else { value(&mut random) }).collect::<Vec<_>>();
    let rates = [0.0_f64, 0.05, 0.3, 0.7, 1.0];
    let rounds = t + 2;
    // By liar: how often it is silent, and how often it lies in a round, to a process, and about a branch.
    let plan =
        |random: &mut Random, many: usize| (0..many).map(|_| rates[random.index(5)]).collect::<Vec<_>>();
    let plans = (0..n)
        .map(|_| (plan(&mut random, rounds), plan(&mut random, n), plan(&mut random, n), random.one_in(2)))
        .collect::<Vec<_>>();
    let silent = [0.0, 0.0, 0.1, 0.5][random.index(4)];
    let bits = random.next();
    let mut lies = random.fork();
    let f = if let Variant::Phi(phi) = variant { f.max(t - phi) } else { f };
    run(t, n - f, &inputs, variant, &mut |round, liar, to, honest| {
        if lies.happens(silent) {
            return None;
        }
        let mut message = honest.clone();
        let (when, whom, about, is_constant) = &plans[liar];
        for (sequence, claim) in message.claims.values_mut() {
            let last = usize::from(sequence.last().unwrap_or(0));
            let rate = when[round as usize] * whom[to].sqrt() * about[last].sqrt();
            if lies.happens(rate) {
                *claim = if *is_constant {
                    [Some(0), Some(1)][usize::from(bits >> to & 1 == 1)]
                } else {
                    value(&mut lies)
                };
            }
        }
        Some(message)
    })
    .map(|_| ())
}

#[test]
fn random_lies_do_no_harm() {
    for (n, t, runs) in [(4, 1, 2000), (7, 2, 1000), (10, 3, 100)] {
        for seed in 0..runs {
            if let Err(violation) = random(n, t, Variant::Whole, seed) {
                panic!("n = {n}, seed {seed}: {violation}");
            }
        }
    }
}

#[test]
fn random_lies_do_no_harm_to_d_phi() {
    for (n, t, phi, runs) in [(7, 2, 1, 300), (10, 3, 2, 100), (10, 3, 1, 100)] {
        for seed in 0..runs {
            if let Err(violation) = random(n, t, Variant::Phi(phi), seed) {
                panic!("n = {n}, φ = {phi}, seed {seed}: {violation}");
            }
        }
    }
}

#[test]
fn messages_survive_their_bytes_and_no_others_do() {
    let inputs = [Some(3), Some(2), None, Some(1)];
    let mut rounds = 0;
    run(1, 3, &inputs, Variant::Whole, &mut |_, _, _, honest| {
        let mut bytes = Vec::new();
        honest.encode(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!(Message::decode(&mut rest).as_ref(), Some(honest));
        assert!(rest.is_empty());
        assert_eq!(Message::<u8>::decode(&mut &bytes[..bytes.len() - 1]), None);
        rounds += 1;
        Some(honest.clone())
    })
    .expect("nothing is violated");
    assert!(rounds > 0);
    let repeated = [2, 1, 0, 0, 0, 5, 5, 0];
    assert_eq!(Claims::<u8>::decode(&mut repeated.as_slice()), None);
    let distinct = [2, 1, 0, 0, 0, 5, 6, 0];
    assert!(Claims::<u8>::decode(&mut distinct.as_slice()).is_some());
    let unordered = [1, 2, 0, 0, 0, 6, 0, 5, 0];
    assert_eq!(Claims::<u8>::decode(&mut unordered.as_slice()), None);
    let many = [1, 255, 255, 255, 255, 6, 0];
    assert_eq!(Claims::<u8>::decode(&mut many.as_slice()), None);
}

/// What the broken rules violate, first with which seed, and by how many processes of which how many may lie.
///
/// Those that are as printed are what docs/byzantine.md tells of. SPECIAL-BOT is seldom needed: `runs` has a plan that shows it missing.
#[test]
fn broken_rules_are_found() {
    for (defect, n, t, seed) in [
        (Defect::FewerVoters, 4, 1, 1),
        (Defect::NoColouring, 7, 2, 43),
        (Defect::PrintedEarly, 4, 1, 30),
        (Defect::PrintedStrong, 7, 2, 10),
        (Defect::PrintedNotVoter, 7, 2, 10),
        (Defect::PrintedVoter, 7, 2, 1),
        (Defect::PrintedResolve, 7, 2, 49),
        (Defect::PrintedSpecialBot, 10, 3, 789),
    ] {
        assert!(random(n, t, Variant::Whole, seed).is_ok(), "{defect:?}");
        assert!(random(n, t, Variant::Broken(defect), seed).is_err(), "{defect:?}");
    }
}
