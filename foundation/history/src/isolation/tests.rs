//! Each phenomenon in the smallest history that shows it, and histories of a store that is right or wrong.

use super::Operation::{Append, Read, ReadList, Write};
use super::store::{Bug, history};
use super::*;
use fulmar_node::Random;
use std::collections::BTreeMap;

fn committed(operations: &[Operation]) -> Transaction {
    Transaction::new(0, Outcome::Committed, operations.to_vec())
}

fn ended(outcome: Outcome, operations: &[Operation]) -> Transaction {
    Transaction::new(0, outcome, operations.to_vec())
}

/// A transaction that took its snapshot and committed at these times.
fn timed(snapshot: u64, commit: u64, operations: &[Operation]) -> Transaction {
    Transaction { snapshot: Some(snapshot), commit: Some(commit), ..committed(operations) }
}

fn list(key: Key, elements: &[Value]) -> Operation {
    ReadList(key, elements.to_vec())
}

fn names(violations: &[Violation]) -> Vec<Phenomenon> {
    violations.iter().map(|violation| violation.phenomenon).collect()
}

/// What snapshot isolation says of a history, without an order of its own.
fn shown(history: &[Transaction]) -> Vec<Phenomenon> {
    names(&check(history, Isolation::Snapshot, Order::Any))
}

#[test]
fn histories_as_they_should_be() {
    assert_eq!(shown(&[]), []);
    let own = [Append(1, 1), list(1, &[1]), Append(1, 2), list(1, &[1, 2]), Write(1, 7), Read(1, Some(7))];
    let later = [list(1, &[1, 2]), Read(1, Some(7)), Read(2, None)];
    assert_eq!(shown(&[committed(&own), committed(&later)]), []);
    let unseen = [ended(Outcome::Aborted, &[Write(1, 1), Append(1, 1)]), committed(&[Read(1, None)])];
    assert_eq!(shown(&unseen), []);
}

#[test]
fn duplicate_write() {
    let twice = [committed(&[Write(1, 5)]), committed(&[Write(1, 5)])];
    assert_eq!(shown(&twice), [Phenomenon::DuplicateWrite]);
    assert_eq!(shown(&[committed(&[Write(1, 5), Append(1, 5), Write(2, 5)])]), []);
}

#[test]
fn internal_inconsistency() {
    for operations in [
        &[Write(1, 1), Read(1, None)][..],
        &[Append(1, 1), list(1, &[])],
        &[Read(2, None), Read(2, Some(9))],
        &[list(2, &[]), Append(2, 1), list(2, &[9, 1])],
        &[Read(1, Some(1)), Write(1, 1)],
        &[list(1, &[1]), Append(1, 1)],
    ] {
        let other = committed(&[Write(2, 9), Append(2, 9)]);
        assert_eq!(shown(&[other, committed(operations)]), [Phenomenon::Internal], "{operations:?}");
    }
}

#[test]
fn garbage_read() {
    assert_eq!(shown(&[committed(&[Read(1, Some(3))])]), [Phenomenon::GarbageRead]);
}

#[test]
fn duplicate_element() {
    let history = [committed(&[Append(1, 1)]), committed(&[list(1, &[1, 1])])];
    assert!(shown(&history).contains(&Phenomenon::DuplicateElement));
}

#[test]
fn incompatible_order() {
    let writers = [committed(&[Append(1, 1)]), committed(&[Append(1, 2)])];
    let readers = [committed(&[list(1, &[1])]), committed(&[list(1, &[2])])];
    assert_eq!(shown(&[writers, readers].concat()), [Phenomenon::IncompatibleOrder]);
    // An append that is gone: 1 was committed before 2, and only 2 is seen.
    let mut gone = [committed(&[Append(1, 1)]), committed(&[Append(1, 2)]), committed(&[list(1, &[2])])];
    (gone[0].commit, gone[1].commit) = (Some(1), Some(2));
    assert_eq!(shown(&gone), [Phenomenon::IncompatibleOrder]);
}

#[test]
fn g1a_aborted_read() {
    let register = [ended(Outcome::Aborted, &[Write(1, 1)]), committed(&[Read(1, Some(1))])];
    assert_eq!(shown(&register), [Phenomenon::G1a]);
    let writers = [ended(Outcome::Aborted, &[Append(1, 1)]), committed(&[Append(1, 2)])];
    let list = [&writers[..], &[committed(&[list(1, &[1, 2])])]].concat();
    assert_eq!(shown(&list), [Phenomenon::G1a]);
    // What aborted may have seen anything.
    let nobody = [ended(Outcome::Aborted, &[Write(1, 1)]), ended(Outcome::Aborted, &[Read(1, Some(1))])];
    assert_eq!(shown(&nobody), []);
}

#[test]
fn g1b_intermediate_read() {
    let register = [committed(&[Write(1, 1), Write(1, 2)]), committed(&[Read(1, Some(1))])];
    assert_eq!(shown(&register), [Phenomenon::G1b]);
    let list = [committed(&[Append(1, 1), Append(1, 2)]), committed(&[list(1, &[1])])];
    assert!(shown(&list).contains(&Phenomenon::G1b));
}

#[test]
fn g0_dirty_write() {
    let writers = [committed(&[Append(1, 1), Append(2, 1)]), committed(&[Append(1, 2), Append(2, 2)])];
    let reader = committed(&[list(1, &[1, 2]), list(2, &[2, 1])]);
    let violations = check(&[&writers[..], &[reader]].concat(), Isolation::Snapshot, Order::Any);
    assert_eq!(names(&violations), [Phenomenon::G0]);
    assert_eq!(
        violations[0].to_string(),
        "G0 (dirty write):\n  \
         T0 wrote 1 to list 1, and T1 wrote 2 after it\n  \
         T1 wrote 2 to list 2, and T0 wrote 1 after it\n"
    );
}

#[test]
fn g1c_circular_information_flow() {
    let history = [committed(&[Write(1, 1), Read(2, Some(1))]), committed(&[Write(2, 1), Read(1, Some(1))])];
    assert_eq!(shown(&history), [Phenomenon::G1c]);
}

#[test]
fn lost_update() {
    // Without an order of the register's versions, and with one.
    let blind = [committed(&[Read(1, None), Write(1, 1)]), committed(&[Read(1, None), Write(1, 2)])];
    assert_eq!(shown(&blind), [Phenomenon::LostUpdate]);
    let mut ordered = blind;
    (ordered[0].commit, ordered[1].commit) = (Some(1), Some(2));
    assert_eq!(shown(&ordered), [Phenomenon::LostUpdate]);
    let lists = [committed(&[list(1, &[]), Append(1, 1)]), committed(&[list(1, &[]), Append(1, 2)])];
    assert_eq!(shown(&lists), [Phenomenon::LostUpdate]);
    let seen = [&lists[..], &[committed(&[list(1, &[1, 2])])]].concat();
    assert_eq!(shown(&seen), [Phenomenon::LostUpdate]);
}

#[test]
fn g_single_read_skew() {
    let history = [
        committed(&[Append(1, 1), Append(2, 1)]),
        committed(&[list(1, &[]), list(2, &[1])]),
        committed(&[list(1, &[1])]),
    ];
    let violations = check(&history, Isolation::Snapshot, Order::Any);
    assert_eq!(names(&violations), [Phenomenon::GSingle]);
    assert_eq!(violations[0].transactions, [1, 0]);
}

#[test]
fn g_nonadjacent_long_fork() {
    let history = [
        committed(&[Append(1, 1)]),
        committed(&[Append(2, 1)]),
        committed(&[list(1, &[1]), list(2, &[])]),
        committed(&[list(1, &[]), list(2, &[1])]),
    ];
    assert_eq!(shown(&history), [Phenomenon::GNonadjacent]);
}

#[test]
fn g_sia_interference() {
    let late_read = [timed(0, 5, &[Write(1, 1)]), timed(4, 6, &[Read(1, Some(1))])];
    assert_eq!(shown(&late_read), [Phenomenon::GSIa]);
    let overlapping = [timed(0, 5, &[Write(1, 1)]), timed(4, 6, &[Write(1, 2)])];
    assert_eq!(shown(&overlapping), [Phenomenon::GSIa]);
    assert_eq!(check(&overlapping, Isolation::Serializable, Order::Any), []);
}

#[test]
fn g_sib_missed_effects() {
    let mut history = [timed(0, 4, &[Write(1, 1)]), timed(4, 6, &[Read(1, None)])];
    assert_eq!(shown(&history), [Phenomenon::GSIb]);
    history[1].snapshot = Some(3);
    assert_eq!(shown(&history), []);
}

#[test]
fn g2_item_write_skew() {
    let history = [timed(0, 1, &[Read(1, None), Write(2, 1)]), timed(0, 2, &[Read(2, None), Write(1, 1)])];
    assert_eq!(shown(&history), []);
    let violations = check(&history, Isolation::Serializable, Order::RealTime);
    assert_eq!(names(&violations), [Phenomenon::G2Item]);
}

#[test]
fn whoever_was_seen_has_committed() {
    let unknown = ended(Outcome::Unknown, &[Append(1, 1), Read(1, Some(7)), Append(2, 1)]);
    assert_eq!(shown(std::slice::from_ref(&unknown)), []);
    let seen = [unknown, committed(&[list(1, &[1]), list(2, &[])]), committed(&[list(2, &[1])])];
    assert_eq!(shown(&seen), [Phenomenon::GarbageRead, Phenomenon::GSingle]);
}

#[test]
fn sessions_and_real_time() {
    let mut history = [timed(0, 1, &[Write(1, 1)]), committed(&[Read(1, None)])];
    let mut ordered = |process, begin, order| {
        history[1].process = process;
        (history[0].interval, history[1].interval) = (Some((10, 20)), Some((begin, 40)));
        check(&history, Isolation::Snapshot, order)
    };
    assert_eq!(ordered(0, 30, Order::Any), []);
    assert_eq!(ordered(1, 30, Order::Session), []);
    assert_eq!(ordered(1, 20, Order::RealTime), []);
    let session = ordered(0, 20, Order::RealTime);
    assert_eq!((session[0].phenomenon, session[0].order), (Phenomenon::GSingle, Order::Session));
    let real_time = ordered(1, 30, Order::RealTime);
    assert_eq!((real_time[0].phenomenon, real_time[0].order), (Phenomenon::GSingle, Order::RealTime));
    let last = "T0 ended at 20, before T1 began at 30\n";
    assert!(real_time[0].to_string().ends_with(last), "{}", real_time[0]);
}

/// As if nothing but values were known.
fn without_timestamps(mut history: Vec<Transaction>) -> Vec<Transaction> {
    for transaction in &mut history {
        (transaction.snapshot, transaction.commit) = (None, None);
    }
    history
}

#[test]
fn a_right_store_passes() {
    for seed in 0..2_000 {
        for (bug, order) in [(Bug::None, Order::RealTime), (Bug::OldSnapshots, Order::Any)] {
            let history = history(seed, bug, 60, 1 + seed % 5);
            for history in [without_timestamps(history.clone()), history] {
                let violations = check(&history, Isolation::Snapshot, order);
                assert!(violations.is_empty(), "seed {seed}: {}\n{history:#?}", violations[0]);
            }
        }
    }
}

#[test]
fn wrong_stores_are_caught() {
    // How many of a hundred histories show it by values alone: these tell neither the order of registers nor of what
    // nobody read.
    let wrong = [
        (Bug::OldSnapshots, Phenomenon::GSingle, 90),
        (Bug::LateReads, Phenomenon::GSIa, 40),
        (Bug::NoFirstCommitterWins, Phenomenon::LostUpdate, 90),
        (Bug::DirtyReads, Phenomenon::G1a, 90),
        (Bug::NoRollback, Phenomenon::G1a, 90),
        (Bug::HalfCommits, Phenomenon::GSIb, 30),
    ];
    for (bug, expected, expected_by_values) in wrong {
        let (mut caught, mut by_values, mut by_name) = (0, 0, 0);
        for seed in 0..100 {
            let history = history(seed, bug, 60, 3);
            let violations = check(&history, Isolation::Snapshot, Order::RealTime);
            by_name += usize::from(names(&violations).contains(&expected));
            caught += usize::from(!violations.is_empty());
            let history = without_timestamps(history);
            by_values += usize::from(!check(&history, Isolation::Snapshot, Order::RealTime).is_empty());
        }
        let counts = format!("{bug:?}: {caught} {by_values} {by_name}");
        assert!(caught >= 95 && by_values >= expected_by_values && by_name >= 30, "{counts}");
    }
}

#[test]
fn long_histories_are_checked() {
    let keys = 20_000;
    assert_eq!(check(&history(1, Bug::None, 100_000, keys), Isolation::Snapshot, Order::RealTime), []);
    let wrong = history(1, Bug::LateReads, 100_000, keys);
    assert!(!check(&wrong, Isolation::Snapshot, Order::RealTime).is_empty());
}

/// Some transactions on two lists, and one that reads how these end; what the others read is drawn.
fn random_lists(random: &mut Random) -> Vec<Transaction> {
    let mut orders = [Vec::new(), Vec::new()];
    let mut history = vec![committed(&[]); 4];
    for (element, transaction) in history.iter_mut().enumerate() {
        for (key, order) in (0..).zip(&mut orders) {
            if random.one_in(2) {
                transaction.operations.push(Append(key, element as u64));
                order.insert(random.index(order.len() + 1), element as u64);
            }
        }
    }
    for transaction in &mut history {
        for (key, order) in (0..).zip(&orders) {
            if random.one_in(2) {
                let seen = order[..random.index(order.len() + 1)].to_vec();
                transaction.operations.insert(0, ReadList(key, seen));
            }
        }
    }
    history.push(committed(&[list(0, &orders[0]), list(1, &orders[1])]));
    history
}

/// What has been committed of a list, and how many commits there were when it last changed.
type Lists = BTreeMap<Key, (Vec<Value>, usize)>;

/// Is there an order of starts and commits under which each transaction reads what was committed when it started, and
/// the first committer wins (Berenson et al., 1995)?
fn has_schedule(
    history: &[Transaction],
    started: &mut [Option<usize>],
    lists: &Lists,
    commits: usize,
) -> bool {
    const DONE: Option<usize> = Some(usize::MAX);
    if started.iter().all(|&at| at == DONE) {
        return true;
    }
    (0..history.len()).any(|index| {
        let before = started[index];
        let operations = &history[index].operations;
        let found = match before {
            DONE => false,
            None => {
                let content = |key| lists.get(key).map_or(&[][..], |(content, _)| content);
                let mut reads = operations.iter();
                started[index] = Some(commits);
                reads.all(|step| !matches!(step, ReadList(key, seen) if seen != content(key)))
                    && has_schedule(history, started, lists, commits)
            }
            Some(start) => {
                let mut lists = lists.clone();
                started[index] = DONE;
                let wins = operations.iter().all(|step| {
                    let Append(key, element) = step else { return true };
                    let (content, changed) = lists.entry(*key).or_default();
                    content.push(*element);
                    std::mem::replace(changed, commits + 1) <= start
                });
                wins && has_schedule(history, started, &lists, commits + 1)
            }
        };
        started[index] = before;
        found
    })
}

#[test]
fn the_checker_agrees_with_a_search_of_schedules() {
    let mut random = Random::new(3);
    let mut right = 0;
    for _ in 0..5_000 {
        let history = random_lists(&mut random);
        let expected = has_schedule(&history, &mut vec![None; history.len()], &Lists::new(), 0);
        let violations = check(&history, Isolation::Snapshot, Order::Any);
        assert_eq!(violations.is_empty(), expected, "{violations:?}\n{history:#?}");
        right += usize::from(expected);
    }
    assert!((500..4_500).contains(&right), "{right}");
}
