//! Logs that are longer than a message can be.

use super::registers::invocation;
use super::role::{Order, Said, entries};
use super::{Incarnations, replicas, world};
use crate::group::Defect;
use crate::{Group, Options, Outcome, Protocol, View};
use fulmar_history::linearizability::{KeyValueOperation, RegisterOperation};
use fulmar_node::NodeId;
use fulmar_sim::{Delay, Seed};
use std::time::Duration;

const REPLICAS: u32 = 3;

/// Whether a client is answered again after all replicas have lost power, with logs of many messages and different lengths.
fn is_answered_after_a_power_cut(protocol: Protocol, defect: Option<Defect>) -> bool {
    let client = NodeId(REPLICAS);
    let group = Group::new((0..REPLICAS).map(NodeId), protocol).expect("three").with_defect(defect);
    let options = Options { bytes: 100, ..Options::default() };
    let mut sim = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    sim.set_sync(NodeId(1), Delay::Fixed(Duration::from_millis(300)));
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    sim.run(Duration::from_secs(1), |_, _, _| {});
    for _ in 0..50 {
        sim.request(client, Order::Client(invocation(write, false)));
    }
    let mut answered = 0;
    sim.run(Duration::from_secs(60), |sim, _, said| {
        answered += usize::from(matches!(said, Said::Client(Outcome::Result(_))));
        if answered == 40 {
            (0..REPLICAS).map(NodeId).for_each(|node| sim.crash(node));
            (0..REPLICAS).map(NodeId).for_each(|node| sim.restart(node));
        }
    });
    assert!(answered >= 40, "{protocol:?}: {answered}");
    answered == 50
}

#[test]
fn a_group_goes_on_whose_log_is_longer_than_a_message() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        assert!(is_answered_after_a_power_cut(protocol, None), "{protocol:?}");
        let whole = is_answered_after_a_power_cut(protocol, Some(Defect::SendsWholeLogs));
        assert!(!whole, "{protocol:?}");
    }
}

/// How many bytes a replica comes to hold, at most, that are not committed, while a leader is cut off with all clients; afterwards all of them are
/// answered.
fn taken_without_a_quorum(protocol: Protocol, defect: Option<Defect>) -> usize {
    const CLIENTS: u32 = 20;
    let group = Group::new((0..REPLICAS).map(NodeId), protocol).expect("three").with_defect(defect);
    let options = Options { checkpoint_bytes: 300, ..Options::default() };
    let mut sim = world(Seed::from(1), &group, (0, CLIENTS), &options, &Incarnations::default());
    let clients = || (REPLICAS..REPLICAS + CLIENTS).map(NodeId);
    sim.run(Duration::from_secs(1), |_, _, _| {});
    let leader = NodeId(0);
    let cut = sim.partition([leader], [NodeId(1), NodeId(2)]);
    let others = sim.partition([NodeId(1), NodeId(2)], clients());
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    clients().for_each(|client| sim.request(client, Order::Client(invocation(write, false))));
    let mut answered = 0;
    sim.run(Duration::from_secs(2), |_, _, said| answered += usize::from(matches!(said, Said::Client(_))));
    assert_eq!(answered, 0, "{protocol:?}");
    let taken = replicas(&sim).map(|(_, replica)| replica.uncommitted_bytes()).max().unwrap_or_default();
    sim.mend(cut);
    sim.mend(others);
    sim.run(Duration::from_secs(60), |_, _, said| answered += usize::from(matches!(said, Said::Client(_))));
    assert_eq!(answered, CLIENTS as usize, "{protocol:?}");
    taken
}

#[test]
fn who_commits_nothing_takes_no_more_than_there_is_room_for() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        assert!((1..=300).contains(&taken_without_a_quorum(protocol, None)), "{protocol:?}");
        assert!(taken_without_a_quorum(protocol, Some(Defect::TakesAll)) > 600, "{protocol:?}");
    }
}

/// How many bytes of operations that are carried out stay in a log, at most, when there were many of them.
fn kept_in_a_log(protocol: Protocol, defect: Option<Defect>) -> usize {
    const OPERATIONS: usize = 50;
    let client = NodeId(REPLICAS);
    let group = Group::new((0..REPLICAS).map(NodeId), protocol).expect("three").with_defect(defect);
    let options = Options { checkpoint_bytes: 300, ..Options::default() };
    let mut sim = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    sim.run(Duration::from_secs(1), |_, _, _| {});
    for _ in 0..OPERATIONS {
        sim.request(client, Order::Client(invocation(write, false)));
    }
    let mut answered = 0;
    sim.run(Duration::from_secs(60), |_, _, said| answered += usize::from(matches!(said, Said::Client(_))));
    assert_eq!(answered, OPERATIONS, "{protocol:?}");
    replicas(&sim).map(|(_, replica)| replica.committed_bytes()).max().unwrap_or_default()
}

#[test]
fn a_log_is_cut_off_by_its_bytes() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let kept = kept_in_a_log(protocol, None);
        // Since the checkpoint before the last, and what a backup learns of by one sign.
        assert!(kept <= 900, "{protocol:?}: {kept}");
        let kept = kept_in_a_log(protocol, Some(Defect::CountsOperations));
        assert!(kept > 1_500, "{protocol:?}: {kept}");
    }
}

/// How many of a hundred operations are answered that are long, and come at once over slow links; and the view then.
fn over_slow_links(protocol: Protocol, defect: Option<Defect>) -> (u32, View) {
    /// As many as are remembered.
    const CLIENTS: u32 = 5;
    let group = Group::new((0..REPLICAS).map(NodeId), protocol).expect("three").with_defect(defect);
    // One operation in each message.
    let options = Options { bytes: 1, ..Options::default() };
    let mut sim = world(Seed::from(1), &group, (0, CLIENTS), &options, &Incarnations::default());
    sim.run(Duration::from_secs(1), |_, _, _| {});
    // A leader's sign takes next to no time, an operation more than from one sign to the next.
    sim.set_rate(160_000, |message| 50 + 4_000 * entries(message).len());
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    for client in REPLICAS..REPLICAS + CLIENTS {
        (0..20).for_each(|_| sim.request(NodeId(client), Order::Client(invocation(write, false))));
    }
    let mut answered = 0;
    sim.run(Duration::from_secs(5), |_, _, said| {
        answered += u32::from(matches!(said, Said::Client(Outcome::Result(_))));
    });
    (answered, replicas(&sim).map(|(_, replica)| replica.view).max().expect("three"))
}

/// What a leader has to send keeps neither its signs nor what is new.
#[test]
fn nothing_waits_behind_what_is_sent_again() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        assert_eq!(over_slow_links(protocol, None), (100, View::first_of(0)), "{protocol:?}");
    }
    let (answered, _) = over_slow_links(Protocol::Viewstamped, Some(Defect::SendsAgainAtOnce));
    assert!(answered < 50, "{answered}");
}
