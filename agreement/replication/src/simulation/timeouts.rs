//! Replicas of one group that are set to different time-outs.

use super::role::Role;
use super::{Registers, replicas};
use crate::{Group, LeaderTimeout, Protocol, Replica, View};
use fulmar_node::NodeId;
use fulmar_sim::{Seed, Sim};
use std::time::Duration;

const PROTOCOLS: [Protocol; 3] = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
const SECOND: Duration = Duration::from_secs(1);
/// In milliseconds.
const TIMES: [u64; 3] = [100, 300, 10_000];

fn world(timeouts: [LeaderTimeout; 3], protocol: Protocol) -> Sim<Role> {
    let group = Group::new((0..3).map(NodeId), protocol).expect("three");
    let members = group.members().to_vec();
    let mut sim = Sim::new(Seed::from(1), move |node, records| {
        let place = node.0 as usize;
        let (options, registers) = (timeouts[place].options(), Registers::default());
        Role::replica(Replica::new(members[place], group.clone(), options, registers, records), records)
    });
    (0..3).for_each(|node| sim.add(NodeId(node)));
    sim
}

fn newest_view(sim: &Sim<Role>) -> View {
    replicas(sim).map(|(_, replica)| replica.view).max().expect("three")
}

#[test]
fn members_that_are_set_differently_live_together() {
    for (first, second) in (0..3).flat_map(|first| [(first, (first + 1) % 3), (first, (first + 2) % 3)]) {
        let places = [first, second, 3 - first - second];
        let times = places.map(|place| TIMES[place]);
        let timeouts = times.map(|time| LeaderTimeout::new(Duration::from_millis(time)).expect("in range"));
        for protocol in PROTOCOLS {
            let mut sim = world(timeouts, protocol);
            sim.run(60 * SECOND, |_, _, _| {});
            assert_eq!(newest_view(&sim), View::first_of(0), "{protocol:?}, {times:?}: nothing was amiss");
            sim.crash(NodeId(0));
            // Both others have to want another.
            let longest = timeouts[1].get().max(timeouts[2].get());
            sim.run(longest + SECOND, |_, _, _| {});
            let is_led = replicas(&sim).any(|(_, replica)| replica.leads() && replica.is_sure);
            assert!(is_led && newest_view(&sim) > View::first_of(0), "{protocol:?}, {times:?}: nobody leads");
        }
    }
}
