//! What is looked through every second, as long as there is reason: who is silent, which doors were shut, who waits for others.

use super::{Connection, Net, Stage};
use crate::hello::FIRST_CLIENT;
use crate::link::LinkError;
use std::time::Duration;

/// A greeting is whole within this time, or the connection goes.
const GREETING: Duration = Duration::from_secs(5);
/// How often connections are looked through for those that are silent, and for how long a listener rests that the
/// system gave no connection.
const SWEEP: Duration = Duration::from_secs(1);

impl Net {
    pub(super) fn plan_sweep(&mut self) {
        self.next_sweep.get_or_insert(self.now + SWEEP);
    }

    /// Closes connections that say nothing, opens doors that were shut.
    pub(super) fn sweep(&mut self) {
        self.next_sweep = None;
        let now = self.now;
        let late = |connection: &Connection| match connection.stage {
            Stage::Hello | Stage::Answer(_) => {
                // What came during a long turn, and was not looked at, may be a greeting.
                let is_unread = connection.readable && connection.heard == connection.begun;
                let is_late = now.since(connection.begun) >= GREETING && !is_unread;
                is_late.then_some(LinkError::Mute(GREETING))
            }
            Stage::Open(peer) if peer >= FIRST_CLIENT => {
                let silent = now.since(connection.heard);
                self.limits.idle.filter(|&idle| silent >= idle).map(LinkError::Idle)
            }
            Stage::Open(_) => None,
        };
        let late: Vec<_> =
            self.connections.iter().filter_map(|(&key, connection)| Some((key, late(connection)?))).collect();
        for (key, why) in late {
            self.close(key, why);
        }
        self.settle_claims();
        for at in 0..self.doors.len() {
            self.set_door(at, true);
        }
        if let Some((key, before)) = self.exempt {
            let own = self.unread.get(key);
            self.exempt = (own > before).then_some((key, own));
            self.let_go();
        }
        let greeting = |connection: &Connection| !matches!(connection.stage, Stage::Open(_));
        let watch = self.limits.idle.is_some() && !self.connections.is_empty();
        self.next_sweep = None;
        let waiting =
            self.exempt.is_some() || self.routes.are_contested() || self.connections.values().any(greeting);
        if watch || waiting || self.doors.iter().any(|door| !door.open) {
            self.plan_sweep();
        }
    }
}
