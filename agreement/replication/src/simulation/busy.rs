//! Replicas that work on something, or wait for their disks, for longer than the others have patience.

use super::registers::invocation;
use super::role::{Order, Role, Said};
use super::{Incarnations, replicas, world};
use crate::group::Defect;
use crate::{Group, Options, Outcome, Protocol, View};
use fulmar_history::linearizability::{KeyValueOperation, RegisterOperation};
use fulmar_node::NodeId;
use fulmar_sim::{Delay, Seed, Sim};
use std::time::Duration;

const PROTOCOLS: [Protocol; 3] = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
const REPLICAS: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);
const SIGN: Duration = Duration::from_millis(50);

/// The others' view after these have worked for so long, during which the others hear that they do, or not.
fn view_after(busy: &[u32], lasting: Duration, heard: bool, protocol: Protocol) -> View {
    let group = Group::new((0..REPLICAS).map(NodeId), protocol).expect("three");
    let options = Options { heartbeat: SIGN, patience: 6 * SIGN, ..Options::default() };
    let mut sim: Sim<Role> = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    sim.run(SECOND, |_, _, _| {});
    let others: Vec<u32> = (0..REPLICAS).filter(|node| !busy.contains(node)).collect();
    busy.iter().for_each(|node| sim.pause(NodeId(*node)));
    let mut worked = Duration::ZERO;
    while worked < lasting {
        for (node, peer) in others.iter().flat_map(|node| busy.iter().map(move |peer| (*node, *peer))) {
            if heard {
                sim.request(NodeId(node), Order::BearWith(NodeId(peer)));
            }
        }
        sim.run(SIGN, |_, _, _| {});
        worked += SIGN;
    }
    busy.iter().for_each(|node| sim.resume(NodeId(*node)));
    sim.run(SECOND, |_, _, _| {});
    replicas(&sim).map(|(_, replica)| replica.view).max().expect("three")
}

#[test]
fn nobody_loses_patience_with_who_works_for_seconds() {
    let first = View::first_of(0);
    for protocol in PROTOCOLS {
        for busy in [&[0][..], &[1, 2], &[1]] {
            assert_eq!(view_after(busy, 4 * SECOND, true, protocol), first, "{protocol:?}: {busy:?}");
        }
        assert!(view_after(&[0], 4 * SECOND, false, protocol) > first, "{protocol:?}: nothing was heard");
        assert!(view_after(&[0], 20 * SECOND, true, protocol) > first, "{protocol:?}: it never ends");
    }
}

/// How many of three operations are answered if all disks take so long for a sync, and the view then.
fn with_slow_disks(members: u32, sync: Duration, protocol: Protocol, defect: Option<Defect>) -> (u32, View) {
    let group = Group::new((0..members).map(NodeId), protocol).expect("odd").with_defect(defect);
    let options = Options { heartbeat: SIGN, patience: 6 * SIGN, ..Options::default() };
    let mut sim: Sim<Role> = world(Seed::from(1), &group, (0, 1), &options, &Incarnations::default());
    sim.run(SECOND, |_, _, _| {});
    (0..members).for_each(|node| sim.set_sync(NodeId(node), Delay::Fixed(sync)));
    let write = KeyValueOperation { key: 1, operation: RegisterOperation::Write(Some(1)) };
    (0..3).for_each(|_| sim.request(NodeId(members), Order::Client(invocation(write, false))));
    let mut answered = 0;
    sim.run(60 * SECOND, |_, _, said| {
        answered += u32::from(matches!(said, Said::Client(Outcome::Result(_))));
    });
    (answered, replicas(&sim).map(|(_, replica)| replica.view).max().expect("some"))
}

/// A leader that speculates leaves its view if no superquorum is there. Slow disks are no reason.
#[test]
fn nobody_leaves_a_view_because_disks_are_slow() {
    let first = View::first_of(0);
    for protocol in PROTOCOLS {
        for members in [3, 5] {
            let (answered, view) = with_slow_disks(members, 3 * SECOND, protocol, None);
            assert_eq!((answered, view), (3, first), "{protocol:?}: {members}");
        }
    }
    let (_, view) = with_slow_disks(5, 3 * SECOND, Protocol::Speculative, Some(Defect::Hasty));
    assert!(view > first, "{view}");
}
