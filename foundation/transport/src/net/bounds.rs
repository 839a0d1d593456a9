//! Bounds on the memory that clients take, and whoever may be one: by messages that are not whole, and by answers that are not read.

use super::{Connection, LARGE, Net, Stage};
use crate::hello::FIRST_CLIENT;

impl Net {
    /// Whether the bounds for clients hold of a connection: it is one of a client, or of somebody who may have invented the server's name that it
    /// says. Nobody has if this server has dialed it, or sends on it to a server whose address is known.
    pub(super) fn is_limited(&self, key: u64) -> bool {
        self.connections.get(&key).is_some_and(|connection| match connection.stage {
            Stage::Open(peer) if peer < FIRST_CLIENT => {
                let is_route = || self.book.address(peer).is_some() && self.routes.get(peer) == Some(key);
                !connection.dialed && !is_route()
            }
            Stage::Open(_) => true,
            _ => false,
        })
    }

    /// Whether who has sent a part of a large message has to wait for others to send theirs.
    pub(super) fn is_full_for(&mut self, key: u64) -> bool {
        let own = self.unread.get(key);
        self.unread.sum() - own > self.limits.unread && self.exempt.get_or_insert((key, own)).0 != key
    }

    pub(super) fn hold(&mut self, key: u64) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.held = true;
            self.soil(key);
            self.plan_sweep();
        }
    }

    pub(super) fn note_unread(&mut self, key: u64, bytes: usize) {
        self.unread.set(key, bytes);
        self.counters.unread_peak = self.counters.unread_peak.max(self.unread.sum() as u64);
    }

    /// A large message is whole, or will never be: there is room for others.
    pub(super) fn forget_unread(&mut self, key: u64) {
        if self.unread.set(key, 0) == 0 {
            return;
        }
        self.exempt = self.exempt.filter(|(exempt, _)| *exempt != key);
        self.let_go();
    }

    /// Looks again whether those that are held may be read from.
    pub(super) fn let_go(&mut self) {
        let held = |(&key, connection): (&u64, &Connection)| connection.held.then_some(key);
        let held: Vec<u64> = self.connections.iter().filter_map(held).collect();
        for key in held {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.held = false;
            }
            self.soil(key);
            self.queue(key);
        }
    }

    /// Who is limited has so many bytes unsent.
    pub(super) fn note_backlog(&mut self, key: u64, unsent: usize) {
        self.backlog.set(key, if unsent < LARGE { 0 } else { unsent });
        self.counters.backlog_peak = self.counters.backlog_peak.max(self.backlog.sum() as u64);
    }

    /// Who is limited and has more unsent is not read from.
    pub(super) fn unsent_bound(&self) -> usize {
        let is_too_much = self.backlog.sum() > self.limits.unread;
        if is_too_much { self.limits.unsent.min(LARGE) } else { self.limits.unsent }
    }
}
