//! Connections with servers that are open, and on which nothing arrives any more.
//!
//! What a network has lost, TCP sends again after a while, and after twice as long each time (RFC 6298, section 5.5): when the network is
//! well again, that is seconds away, and a packet that is lost then doubles it once more. Meanwhile the connection may do well in the
//! other direction, so both ends take it for whole. A new connection has no such past. So a server that acknowledges nothing is called
//! anew; if it answers while nothing is acknowledged still, the new connection takes the place of the old.
//!
//! Who is only busy acknowledges nothing either when it has much to read: its system drops what it has no room for, and that is sent again
//! as if a network had lost it. So nothing is concluded as long as the other end says that it is busy, nor from a time in which this end was.

use super::{Connection, Net, Stage};
use crate::link::LinkError;
use fulmar_node::{NodeId, Time};
use std::time::Duration;

/// Nothing has been acknowledged for so long, or a call was not answered.
const STALL: Duration = Duration::from_millis(300);
/// So often it is looked, as long as something is not acknowledged; where the process has regular work too, in the same turn.
const LOOK: Duration = Duration::from_millis(100);

/// How far the other end's system has acknowledged what has left, when that was last looked at.
#[derive(Debug)]
pub(super) struct Progress {
    /// Bytes that were not acknowledged.
    unacknowledged: usize,
    /// Bytes that had left.
    left: u64,
    /// Bytes that have left by now.
    now_left: u64,
    /// When something was last acknowledged, or had to be.
    since: Time,
}

impl Progress {
    pub(super) const fn new(now: Time) -> Self {
        Self { unacknowledged: 0, left: 0, now_left: 0, since: now }
    }

    /// The other end is there, and busy.
    pub(super) const fn excuse(&mut self, now: Time) {
        self.since = now;
    }

    /// So many bytes have left.
    const fn note(&mut self, count: usize, now: Time) {
        if self.unacknowledged == 0 && self.left == self.now_left {
            self.since = now;
        }
        self.now_left += count as u64;
    }
}

impl Connection {
    /// Whether nothing that had left was acknowledged for so long, when that was last looked at.
    pub(super) fn is_stalled(&self, now: Time, long: Duration) -> bool {
        self.progress.unacknowledged > 0 && now.since(self.progress.since) >= long
    }

    /// Whether nothing that has left was acknowledged for some time.
    fn stands_still(&mut self, now: Time) -> bool {
        // What is the matter with a connection that has failed is heard by reading it.
        let Ok(unacknowledged) = self.link.unacknowledged() else { return false };
        let progress = &mut self.progress;
        let before = progress.unacknowledged as u64 + (progress.now_left - progress.left);
        if unacknowledged == 0 || before > unacknowledged as u64 {
            progress.since = now;
        }
        progress.unacknowledged = unacknowledged;
        progress.left = progress.now_left;
        now.since(progress.since) >= STALL
    }
}

impl Net {
    /// Bytes have left for a server.
    pub(super) fn note_left(&mut self, key: u64, count: usize) {
        let now = self.now;
        if let Some(connection) = self.connections.get_mut(&key)
            && count > 0
        {
            connection.progress.note(count, now);
            self.next_look.get_or_insert_with(|| now.next_multiple_of(LOOK));
        }
    }

    /// Looks which servers are sent to on connections that stand still.
    pub(super) fn look_for_stalls(&mut self) {
        let now = self.now;
        let late = self.next_look.take().map_or(Duration::ZERO, |planned| now.since(planned));
        let mut is_acknowledged = true;
        for (peer, key) in self.routes.of_servers() {
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            if !matches!(connection.stage, Stage::Open(_)) {
                continue;
            }
            connection.progress.since = connection.progress.since + late;
            if connection.stands_still(now) {
                self.stalled.push(peer);
            }
            is_acknowledged &= connection.progress.unacknowledged == 0;
        }
        if !is_acknowledged {
            self.next_look = Some(now.next_multiple_of(LOOK));
        }
    }

    /// Calls a server whose connection stands still. A call that was not answered is given up, as its own packets may have been lost.
    pub(crate) fn renew(&mut self, peer: NodeId) {
        if let Some(call) = self.routes.call(peer) {
            let begun = self.connections.get(&call).map(|call| call.begun);
            if begun.is_some_and(|begun| self.now.since(begun) < STALL) {
                return;
            }
            self.close(call, LinkError::Mute(STALL));
        }
        let Some(address) = self.book.address(peer).cloned() else { return };
        // One that fails at once is tried again.
        if let Ok(key) = self.call(peer, &address) {
            self.routes.renew(peer, key);
        }
    }

    /// A server has answered that was called as its connection stood still.
    pub(super) fn renewed(&mut self, peer: NodeId, key: u64) {
        let now = self.now;
        let route = self.routes.get(peer).and_then(|route| self.connections.get_mut(&route));
        if route.is_none_or(|route| route.stands_still(now)) {
            self.replace(peer, key);
        } else {
            self.close(key, LinkError::Replaced);
        }
    }
}
