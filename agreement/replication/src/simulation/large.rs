//! Logs that are longer than a message can be.

use super::registers::invocation;
use super::role::{Order, Said};
use super::{Incarnations, replicas, world};
use crate::group::Defect;
use crate::{Group, Options, Outcome, Protocol};
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
        // Since the checkpoint before the last.
        assert!(kept <= 700, "{protocol:?}: {kept}");
        let kept = kept_in_a_log(protocol, Some(Defect::CountsOperations));
        assert!(kept > 1_500, "{protocol:?}: {kept}");
    }
}
