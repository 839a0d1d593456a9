//! One replica that hears nothing, is heard by nobody, or misses one other; and one that is gone.

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
const REPLICAS: u32 = 3;
const CLIENT: NodeId = NodeId(REPLICAS);
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
    fn befall(self, sim: &mut Sim<Role>) {
        let others = |node| (0..=REPLICAS).map(NodeId).filter(move |other| *other != node);
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

/// The longest that a client has waited for an answer, beginning with a fault, and the views that the others were in before and after.
fn with(fault: Fault, protocol: Protocol, defect: Option<Defect>) -> (Duration, View, View) {
    let group = Group::new((0..REPLICAS).map(NodeId), protocol).expect("three").with_defect(defect);
    let options = Options {
        heartbeat: Duration::from_millis(50),
        patience: Duration::from_millis(300),
        ..Options::default()
    };
    let mut sim = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    sim.run(SECOND, |_, _, _| {});
    let view = |sim: &Sim<Role>| {
        let others = replicas(sim).filter(|(node, _)| !fault.befalls(*node));
        others.map(|(_, replica)| replica.view).max().expect("two others")
    };
    let before = view(&sim);
    fault.befall(&mut sim);
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    let (mut longest, mut asked) = (Duration::ZERO, sim.now());
    let end = sim.now() + 10 * SECOND;
    sim.request(CLIENT, Order::Client(invocation(write, false)));
    while sim.now() < end {
        let answer = sim.next_event(end);
        longest = longest.max(sim.now().since(asked));
        if let Some((_, Said::Client(Outcome::Result(_)))) = answer {
            let now = sim.now();
            asked = now;
            sim.after(Duration::from_millis(7), move |sim| {
                sim.request(CLIENT, Order::Client(invocation(write, false)));
            });
        }
    }
    assert!(asked > Time::ZERO);
    if let (Fault::HearsNothing(deaf), None) = (fault, defect) {
        for (node, replica) in replicas(&sim) {
            assert_eq!(replica.takes_part(), node != deaf, "{node}");
            let missing =
                if node == deaf { replica.group().others(replica.me).collect() } else { Vec::new() };
            assert_eq!(replica.missing(), missing, "{node}");
        }
    }
    (longest, before, view(&sim))
}

#[test]
fn a_half_deaf_backup_changes_no_view() {
    let [leader, second, third] = [0, 1, 2].map(NodeId);
    for protocol in PROTOCOLS {
        for fault in [
            Fault::HearsNothing(second),
            Fault::IsNotHeard(second),
            Fault::Misses(second, leader),
            Fault::Misses(leader, second),
            Fault::Misses(second, third),
            Fault::Ends(third),
        ] {
            let (longest, before, after) = with(fault, protocol, None);
            assert_eq!(before, after, "{protocol:?}: {fault:?}");
            assert!(longest <= SECOND, "{protocol:?}: {fault:?}: {longest:?}");
        }
        for (fault, changes) in [(Fault::HearsNothing(second), 5), (Fault::Misses(second, leader), 1)] {
            let (_, before, after) = with(fault, protocol, Some(Defect::Impatient));
            assert!(after >= before.after(changes), "{protocol:?}: {fault:?}: {after}");
        }
    }
}

#[test]
fn a_leader_that_is_gone_or_deaf_costs_a_second_at_most() {
    let leader = NodeId(0);
    for protocol in PROTOCOLS {
        for fault in [Fault::Ends(leader), Fault::HearsNothing(leader), Fault::IsNotHeard(leader)] {
            let (longest, before, after) = with(fault, protocol, None);
            assert!(longest <= SECOND, "{protocol:?}: {fault:?}: {longest:?}");
            assert_eq!(after, before.after(1), "{protocol:?}: {fault:?}");
        }
    }
}
