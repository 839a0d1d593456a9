use super::Event::{Broadcast, Deliver};
use super::Property::{Agreement, Causal, Fifo, Integrity, Prefix, TotalOrder, Validity};
use super::*;
use fulmar_node::Random;

const ALL: [Property; 7] = [Validity, Integrity, Agreement, TotalOrder, Prefix, Fifo, Causal];

fn log(is_correct: bool, broadcast: &[u64], delivered: &[u64]) -> Log<u64> {
    let broadcast = broadcast.iter().map(|&message| Broadcast(message));
    Log { is_correct, events: broadcast.chain(delivered.iter().map(|&message| Deliver(message))).collect() }
}

fn correct(broadcast: &[u64], delivered: &[u64]) -> Log<u64> {
    log(true, broadcast, delivered)
}

fn crashed(broadcast: &[u64], delivered: &[u64]) -> Log<u64> {
    log(false, broadcast, delivered)
}

fn broken(logs: &[Log<u64>], scope: Scope) -> Vec<Property> {
    check(logs, &ALL, scope).into_iter().map(|violation| violation.property).collect()
}

#[test]
fn one_order_everywhere() {
    let logs = [correct(&[1, 2], &[1, 3, 2]), correct(&[3], &[1, 3, 2]), crashed(&[4], &[1, 3])];
    assert_eq!(broken(&logs, Scope::Uniform), []);
    assert_eq!(broken(&[], Scope::Uniform), []);
}

#[test]
fn validity() {
    assert_eq!(broken(&[correct(&[1, 2], &[1])], Scope::Correct), [Validity]);
    assert_eq!(broken(&[crashed(&[1], &[])], Scope::Uniform), []);
}

#[test]
fn integrity() {
    assert_eq!(broken(&[correct(&[1], &[1, 1])], Scope::Correct), [Integrity]);
    let created = [correct(&[1], &[1]), crashed(&[], &[2])];
    assert_eq!(broken(&created, Scope::Correct), [Integrity]);
}

#[test]
fn agreement() {
    let logs = [correct(&[1, 2], &[1, 2]), correct(&[], &[1])];
    assert_eq!(broken(&logs, Scope::Correct), [Agreement]);
    let by_a_crashed_one = [correct(&[1], &[1]), crashed(&[2], &[1, 2])];
    assert_eq!(broken(&by_a_crashed_one, Scope::Correct), []);
    assert_eq!(broken(&by_a_crashed_one, Scope::Uniform), [Agreement]);
}

#[test]
fn total_order() {
    let pair = [correct(&[1], &[1, 2]), correct(&[2], &[2, 1])];
    assert_eq!(broken(&pair, Scope::Correct), [TotalOrder, Prefix]);
    let text = "TotalOrder: process 0 delivered 1 before 2; process 1 delivered 2 before 1";
    assert_eq!(check(&pair, &[TotalOrder], Scope::Correct)[0].to_string(), text);
    let by_a_crashed_one = [correct(&[1, 2], &[1, 2]), crashed(&[], &[2, 1])];
    assert_eq!(check(&by_a_crashed_one, &[TotalOrder, Prefix], Scope::Correct), []);
    assert_eq!(check(&by_a_crashed_one, &[TotalOrder], Scope::Uniform).len(), 1);
    // No two of these deliver two messages both, as in a multicast to several groups.
    let circle = [correct(&[1, 2, 3], &[1, 2]), correct(&[], &[2, 3]), correct(&[], &[3, 1])];
    assert_eq!(check(&circle, &[TotalOrder], Scope::Correct).len(), 1);
}

#[test]
fn prefix() {
    let gap = [correct(&[1, 2], &[1, 2]), crashed(&[], &[2])];
    assert_eq!(check(&gap, &[TotalOrder, Prefix], Scope::Correct), []);
    let violations = check(&gap, &[TotalOrder, Prefix], Scope::Uniform);
    assert_eq!(violations[0].to_string(), "Prefix: after 0 messages process 1 delivered 2, and process 0 1");
}

#[test]
fn fifo_and_causal() {
    assert_eq!(broken(&[correct(&[1, 2], &[2, 1])], Scope::Correct), [Fifo, Causal]);
    let answer = Log { is_correct: true, events: vec![Deliver(1), Broadcast(2), Deliver(2)] };
    let hasty = [correct(&[1], &[1, 2]), answer, crashed(&[], &[2, 1])];
    assert_eq!(check(&hasty, &[Fifo, Causal], Scope::Correct), []);
    let violations = check(&hasty, &[Fifo, Causal], Scope::Uniform);
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].property, Causal);
    // Through a message of a third process, which was sent long before.
    let relay = Log { is_correct: true, events: vec![Deliver(1), Broadcast(2), Broadcast(3)] };
    let far = [correct(&[1], &[]), relay, correct(&[], &[2, 3])];
    assert_eq!(check(&far, &[Fifo, Causal], Scope::Correct)[0].property, Causal);
}

/// A sequencer: who broadcasts is appended to one sequence, which all deliver as they come to it.
fn sequenced(random: &mut Random) -> Vec<Log<u64>> {
    let mut logs: Vec<_> = (0..4).map(|process| log(process != 3, &[], &[])).collect();
    let mut sequence = Vec::new();
    let mut places = [0; 4];
    for step in 0..100_u64 {
        let process = random.index(4);
        if step < 60 && random.one_in(4) {
            sequence.push(step);
            logs[process].events.push(Broadcast(step));
        } else if let Some(&message) = sequence.get(places[process]) {
            places[process] += 1;
            logs[process].events.push(Deliver(message));
        }
    }
    for (log, place) in logs.iter_mut().zip(places).filter(|(log, _)| log.is_correct) {
        log.events.extend(sequence[place..].iter().map(|&message| Deliver(message)));
    }
    logs
}

#[test]
fn a_sequencer_keeps_every_promise_until_it_is_tampered_with() {
    let mut random = Random::new(4);
    for _ in 0..2_000 {
        let mut logs = sequenced(&mut random);
        assert_eq!(check(&logs, &ALL, Scope::Uniform), []);
        let process = random.index(3);
        let events = &mut logs[process].events;
        let deliveries = (0..events.len()).filter(|&at| matches!(events[at], Deliver(_)));
        let deliveries: Vec<_> = deliveries.collect();
        let [first, second] = [0, 1].map(|_| deliveries.get(random.index(deliveries.len())));
        let (Some(&first), Some(&second)) = (first, second) else { continue };
        let expected = match random.below(3) {
            0 if first != second => {
                events.swap(first, second);
                TotalOrder
            }
            1 => {
                events[first] = Deliver(1_000);
                Integrity
            }
            _ => {
                events.remove(first);
                Agreement
            }
        };
        let violations = check(&logs, &ALL, Scope::Correct);
        assert!(violations.iter().any(|violation| violation.property == expected), "{expected:?}: {logs:#?}");
    }
}
