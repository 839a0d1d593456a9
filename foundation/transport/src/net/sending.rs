//! What leaves by connections, with one write a turn for each.

use super::{Net, Stage};
use crate::datagrams::Datagrams;
use crate::hello::FIRST_CLIENT;
use crate::notice::Notice;
use fulmar_node::NodeId;
use rustix::event::epoll;

impl Net {
    /// Appends a message to what is to be sent to a peer, connecting to it first if need be, or drops it.
    pub(crate) fn send(&mut self, to: NodeId, body: impl FnOnce(&mut Vec<u8>)) {
        let route = self.routes.get(to).or_else(|| self.dial(to));
        let is_limited = route.is_some_and(|key| self.is_limited(key));
        let Some((key, connection)) = route.and_then(|key| Some((key, self.connections.get_mut(&key)?)))
        else {
            self.counters.dropped += 1;
            return;
        };
        let bound = if is_limited { self.limits.unsent.saturating_mul(2) } else { self.limits.unsent };
        if connection.link.unsent() > bound {
            self.counters.dropped += 1;
            return;
        }
        if let Err(why) = connection.link.append(self.limits.message, body) {
            self.counters.dropped += 1;
            self.notices.push(Notice::TooLong { to, why });
            return;
        }
        self.counters.messages_sent += 1;
        let unsent = connection.link.unsent();
        self.counters.unsent_peak = self.counters.unsent_peak.max(unsent as u64);
        // Before the turn is over: others may have asked for as much in it.
        if is_limited {
            self.note_backlog(key, unsent);
        }
        self.soil(key);
    }

    /// Sends what can be sent, with one write for each connection and one for all datagrams.
    pub(crate) fn flush(&mut self) {
        self.datagrams.iter_mut().for_each(Datagrams::flush);
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            connection.dirty = false;
            let count = connection.link.flush();
            if count > 0 {
                connection.sent = self.now;
            }
            self.counters.bytes_sent += count as u64;
            let unsent = connection.link.unsent();
            let is_client = matches!(connection.stage, Stage::Open(peer) if peer >= FIRST_CLIENT);
            if !is_client {
                self.note_left(key, count);
            }
            self.note_backlog(key, if self.is_limited(key) { unsent } else { 0 });
            let bound = self.unsent_bound();
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            let resumed = connection.paused && connection.link.unsent() <= bound / 2;
            connection.paused &= !resumed;
            let wanted = connection.wanted();
            if connection.interest != wanted {
                let name = epoll::EventData::new_u64(key);
                match epoll::modify(&self.epoll, &connection.link, name, wanted) {
                    Ok(()) => connection.interest = wanted,
                    Err(error) => {
                        self.close(key, error.into());
                        continue;
                    }
                }
            }
            if resumed {
                self.queue(key);
            }
        }
        self.dirty = dirty;
    }
}
