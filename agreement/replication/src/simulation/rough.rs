//! Drivers that do all that the contract allows, and most never do.

use super::role::{Order, Role};
use crate::Timer;
use fulmar_node::{NodeId, Random};
use fulmar_sim::{Delay, Link, Sim};
use std::time::Duration;

/// What a driver may do and seldom does: all that [`fulmar_node::Process`] allows.
pub(super) struct Rough {
    /// Disks that take so long for each sync.
    sync: Duration,
    /// Messages that are overtaken, one in so many, and by how much.
    overtaken: Option<(f64, Duration)>,
    /// Timers expire that are no more.
    expires: bool,
    /// A part of a state is copied in up to so long.
    pub(super) copying: Duration,
    /// The weight of crashes between two records.
    pub(super) torn_write: u64,
}

impl Rough {
    pub(super) fn random(random: &mut Random) -> Self {
        let times = [10, 100, 400].map(Duration::from_millis);
        let overtaken = (0.02 + random.fraction() / 4.0, times[random.index(3)]);
        Self {
            sync: if random.one_in(3) { times[random.index(3)] } else { Duration::ZERO },
            overtaken: random.one_in(3).then_some(overtaken),
            expires: random.one_in(3),
            copying: times[random.index(3)],
            torn_write: if random.one_in(2) { random.below(12) } else { 0 },
        }
    }

    /// Some of the replicas have such disks, and all links are like this.
    pub(super) fn befall(&self, sim: &mut Sim<Role>, nodes: &[NodeId]) {
        for node in nodes.iter().skip(1).step_by(2).filter(|_| self.sync > Duration::ZERO) {
            sim.set_sync(*node, Delay::Uniform { low: Duration::ZERO, high: self.sync });
        }
        if let Some((share, lateness)) = self.overtaken {
            sim.network.link.reorder = share;
            sim.network.link.lateness = Delay::Uniform { low: Duration::ZERO, high: lateness };
        }
    }

    pub(super) fn end(&self, sim: &mut Sim<Role>, nodes: &[NodeId]) {
        sim.network.link = Link::default();
        nodes.iter().for_each(|node| sim.set_sync(*node, Delay::Fixed(Duration::from_micros(200))));
    }

    pub(super) fn disturb(&self, sim: &mut Sim<Role>, nodes: &[NodeId], random: &mut Random) {
        let node = nodes[random.index(nodes.len())];
        if self.expires {
            let timers = [Timer::Patience, Timer::Heartbeat, Timer::Batch];
            sim.request(node, Order::Expire(timers[random.index(3)]));
        }
    }
}
