//! Room for who comes when there are as many connections as there may be.

use super::{Connection, Net, Stage};
use crate::link::LinkError;
use fulmar_node::Time;
use std::time::Duration;

/// A connection may make room for another when it has been idle for so long, and one at its greeting when that has not
/// come for so long.
const SHORT: Duration = Duration::from_secs(1);

impl Connection {
    /// How long it has been that something came or left.
    fn idle(&self, now: Time) -> Duration {
        now.since(self.heard.max(self.sent))
    }
}

impl Net {
    /// Ends a connection that is idle, of a client or of who may have invented the server's name that it says: one that has never asked
    /// anything, or else the one that is so longest.
    /// Whether there is any.
    pub(super) fn make_room(&mut self) -> bool {
        let now = self.now;
        let idle = |(&key, connection): (&u64, &Connection)| {
            let idle = connection.idle(now);
            (self.is_limited(key) && !connection.readable && idle >= SHORT).then_some((
                connection.spoken.is_none(),
                idle,
                key,
            ))
        };
        let Some((_, idle, key)) = self.connections.iter().filter_map(idle).max() else { return false };
        self.close(key, LinkError::Idle(idle));
        true
    }

    /// Ends the connection from `first` on that has waited longest at its greeting and said nothing. Whether there is any;
    /// `first` is moved behind it.
    pub(super) fn clear_waiting(&mut self, first: &mut u64) -> bool {
        let now = self.now;
        let waits = |connection: &Connection| connection.stage == Stage::Hello && !connection.ready;
        while let Some((&key, connection)) =
            self.connections.range_mut(*first..).find(|(_, connection)| waits(connection))
        {
            // Those behind it are younger.
            if now.since(connection.begun) < SHORT {
                return false;
            }
            *first = key + 1;
            match connection.link.receive(false) {
                Ok(0) => self.close(key, LinkError::Mute(SHORT)),
                // It has come after the wait, and is heard in this turn.
                Ok(count) => {
                    connection.heard = now;
                    self.counters.bytes_received += count as u64;
                    self.queue(key);
                    continue;
                }
                Err(why) => self.close(key, why),
            }
            return true;
        }
        false
    }
}
