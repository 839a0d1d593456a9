//! Replicas that hear nothing, are heard by nobody, or miss one other; and such that are gone: one of three, two of five.

use super::registers::invocation;
use super::role::{Order, Role, Said};
use super::{Incarnations, replicas, world};
use crate::group::Defect;
use crate::{Group, Options, Outcome, Protocol, View};
use fulmar_history::linearizability::{KeyValueOperation, RegisterOperation};
use fulmar_node::{NodeId, Time};
use fulmar_sim::{Seed, Sim};
use std::time::Duration;

const PROTOCOLS: [Protocol; 3] = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
const SECOND: Duration = Duration::from_secs(1);

/// What is kept from whom.
#[derive(Clone, Copy, Debug)]
enum Fault {
    HearsNothing(NodeId),
    IsNotHeard(NodeId),
    Misses(NodeId, NodeId),
    Ends(NodeId),
}

impl Fault {
    /// Befalls one of so many members, who have one client.
    fn befall(self, members: u32, sim: &mut Sim<Role>) {
        let others = |node| (0..=members).map(NodeId).filter(move |other| *other != node);
        match self {
            Self::HearsNothing(node) => drop(sim.cut(others(node), [node])),
            Self::IsNotHeard(node) => drop(sim.cut([node], others(node))),
            Self::Misses(node, other) => drop(sim.cut([other], [node])),
            Self::Ends(node) => sim.crash(node),
        }
    }

    fn befalls(self, node: NodeId) -> bool {
        matches!(self, Self::HearsNothing(it) | Self::IsNotHeard(it) | Self::Ends(it) if it == node)
    }
}

/// The longest that a client of so many members has waited for an answer, beginning with faults, and the views that the others were in
/// before and after.
fn with(
    members: u32,
    faults: &[Fault],
    protocol: Protocol,
    defect: Option<Defect>,
) -> (Duration, View, View) {
    let group = Group::new((0..members).map(NodeId), protocol).expect("nodes").with_defect(defect);
    let client = NodeId(members);
    let options = Options {
        heartbeat: Duration::from_millis(50),
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let mut sim = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    sim.run(SECOND, |_, _, _| {});
    let view = |sim: &Sim<Role>| {
        let others = replicas(sim).filter(|(node, _)| !faults.iter().any(|fault| fault.befalls(*node)));
        others.map(|(_, replica)| replica.view).max().expect("a majority")
    };
    let before = view(&sim);
    faults.iter().for_each(|fault| fault.befall(members, &mut sim));
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    let (mut longest, mut asked) = (Duration::ZERO, sim.now());
    let end = sim.now() + 10 * SECOND;
    sim.request(client, Order::Client(invocation(write, false)));
    while sim.now() < end {
        let answer = sim.next_event(end);
        longest = longest.max(sim.now().since(asked));
        if let Some((_, Said::Client(Outcome::Result(_)))) = answer {
            let now = sim.now();
            asked = now;
            sim.after(Duration::from_millis(7), move |sim| {
                sim.request(client, Order::Client(invocation(write, false)));
            });
        }
    }
    assert!(asked > Time::ZERO);
    if let ([Fault::HearsNothing(deaf)], None) = (faults, defect) {
        for (node, replica) in replicas(&sim) {
            assert_eq!(replica.takes_part(), node != *deaf, "{node}");
            let missing =
                if node == *deaf { replica.group().others(replica.me).collect() } else { Vec::new() };
            assert_eq!(replica.missing(), missing, "{node}");
        }
    }
    (longest, before, view(&sim))
}

/// Whether commits take view changes, as no superquorum follows the first leader, and that may not do without (Speculative Paxos, section
/// 4.2.5): until another leads, or the group is given another protocol.
fn reconciles(members: u32, faults: &[Fault], protocol: Protocol) -> bool {
    let group = Group::new((0..members).map(NodeId), protocol).expect("nodes");
    let misses_leader = |fault: &Fault, node| matches!(fault, Fault::Misses(it, NodeId(0)) if *it == node);
    let follows =
        |node: &NodeId| !faults.iter().any(|fault| fault.befalls(*node) || misses_leader(fault, *node));
    let superquorum = group.superquorum();
    protocol == Protocol::Speculative
        && superquorum < group.members().len()
        && group.nodes().filter(follows).count() < superquorum
}

/// The most that a client waits. Who would lead the next view may be among those that are missing.
fn most(reconciles: bool) -> Duration {
    if reconciles { 2 * SECOND } else { SECOND }
}

#[test]
fn half_deaf_backups_change_no_view() {
    let [leader, second, third, fourth, fifth] = [0, 1, 2, 3, 4].map(NodeId);
    let one_of_three = [
        [Fault::HearsNothing(second)],
        [Fault::IsNotHeard(second)],
        [Fault::Misses(second, leader)],
        [Fault::Misses(leader, second)],
        [Fault::Misses(second, third)],
        [Fault::Ends(third)],
    ];
    let two_of_five = [
        [Fault::HearsNothing(second), Fault::HearsNothing(fourth)],
        [Fault::IsNotHeard(second), Fault::IsNotHeard(third)],
        [Fault::HearsNothing(second), Fault::Ends(fifth)],
        [Fault::Misses(second, leader), Fault::Misses(third, leader)],
        [Fault::Misses(leader, second), Fault::Misses(second, third)],
        [Fault::Ends(third), Fault::Ends(fourth)],
    ];
    let faults = one_of_three.iter().map(|faults| (3, &faults[..]));
    for (members, faults) in faults.chain(two_of_five.iter().map(|faults| (5, &faults[..]))) {
        for protocol in PROTOCOLS {
            let (longest, before, after) = with(members, faults, protocol, None);
            let reconciles = reconciles(members, faults, protocol);
            assert!(before == after || reconciles, "{protocol:?}: {faults:?}: {after}");
            assert!(longest <= most(reconciles), "{protocol:?}: {faults:?}: {longest:?}");
        }
    }
    for protocol in PROTOCOLS {
        for (fault, changes) in [(Fault::HearsNothing(second), 5), (Fault::Misses(second, leader), 1)] {
            let (_, before, after) = with(3, &[fault], protocol, Some(Defect::Impatient));
            assert!(after >= before.after(changes), "{protocol:?}: {fault:?}: {after}");
        }
    }
}

#[test]
fn a_leader_that_is_gone_or_deaf_costs_a_second_at_most() {
    let [leader, second, third] = [0, 1, 2].map(NodeId);
    for protocol in PROTOCOLS {
        for fault in [Fault::Ends(leader), Fault::HearsNothing(leader), Fault::IsNotHeard(leader)] {
            let alone = (3, &[fault][..], 1);
            let with_a_backup = (5, &[fault, Fault::Ends(third)][..], 1);
            let with_the_next = (5, &[fault, Fault::Ends(second)][..], 2);
            for (members, faults, views) in [alone, with_a_backup, with_the_next] {
                let (longest, before, after) = with(members, faults, protocol, None);
                let reconciles = reconciles(members, faults, protocol);
                assert!(longest <= most(reconciles), "{protocol:?}: {faults:?}: {longest:?}");
                let is_next = after == before.after(views);
                assert!(is_next || reconciles, "{protocol:?}: {faults:?}: {after}");
            }
        }
    }
}
