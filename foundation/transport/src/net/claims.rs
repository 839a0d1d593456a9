//! Which connection in a server's name is the one on which it is sent to.
//!
//! Names are believed as they are said, by whoever can reach the port. So a connection is a claimant while another is the route, and the
//! server is called at its address: who answers there has the name. A route that was dialed is never given up for one that came in, unless
//! what is sent on it does not arrive.
//!
//! Two servers that have both dialed each send on their own connection, and read that of the other among the claimants in its name. So there
//! is room for some, and those make room first that have said nothing but a name.

use super::{Connection, LARGE, Net, Stage};
use crate::hello::FIRST_CLIENT;
use crate::link::LinkError;
use crate::notice::Notice;
use crate::routes::{Purpose, QUIET};
use fulmar_node::{NodeId, Time};
use std::collections::BTreeMap;

/// So many there are at most in a name, beside the route.
const CLAIMANTS: usize = 16;

/// By what a claimant is preferred to others: messages have come on it, the later the better. None was dialed: those are routes.
pub(super) fn standing(connections: &BTreeMap<u64, Connection>, key: u64) -> (Option<Time>, u64) {
    (connections.get(&key).and_then(|claimant| claimant.spoken), key)
}

impl Connection {
    const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Nothing came for some time, nor is there anything to read: after a long turn that is to be read first.
    fn is_quiet(&self, now: Time) -> bool {
        !self.readable && now.since(self.heard) >= QUIET
    }
}

impl Net {
    /// Gives a connection that came in and has greeted its place.
    pub(super) fn admit(&mut self, peer: NodeId, key: u64) {
        let now = self.now;
        let before = self.routes.get(peer).and_then(|before| self.connections.get(&before));
        match before {
            None => drop(self.routes.set(peer, key)),
            Some(before) if !before.is_open() => self.routes.cross(peer, key),
            Some(before) if !before.dialed && before.is_quiet(now) => {
                self.claims.push(peer);
                self.replace(peer, key);
            }
            Some(_) => {
                self.claims.push(peer);
                self.claim(peer, key);
            }
        }
    }

    /// Gives a connection that was dialed and is answered its place.
    pub(super) fn answered(&mut self, peer: NodeId, key: u64) {
        match self.routes.end_call(peer, key) {
            // It is the route.
            None => {}
            Some(Purpose::Verify) => self.verified(peer, key),
            Some(Purpose::Renew) => self.renewed(peer, key),
            Some(Purpose::Crossed) => self.prefer(peer, key),
        }
    }

    /// A server has answered at its address.
    fn verified(&mut self, peer: NodeId, key: u64) {
        self.routes.answered(peer);
        let before = self.routes.get(peer).and_then(|route| self.connections.get(&route));
        if before.is_some_and(|before| before.link.unsent() >= LARGE) {
            // It would be kept for who may be somebody else.
            return self.replace(peer, key);
        }
        self.prefer(peer, key);
        // What was sent before may have come to somebody else.
        self.disconnected.push(peer);
    }

    /// Makes a connection that was dialed the route in place of an open one, which is read from still.
    fn prefer(&mut self, peer: NodeId, key: u64) {
        if let Some(before) = self.routes.set(peer, key) {
            self.claim(peer, before);
        }
    }

    /// Makes a connection the route in place of an open one, which ends.
    pub(super) fn replace(&mut self, peer: NodeId, key: u64) {
        if let Some(before) = self.routes.set(peer, key) {
            self.close(before, LinkError::Replaced);
            self.disconnected.push(peer);
        }
    }

    fn claim(&mut self, peer: NodeId, key: u64) {
        self.routes.claim(peer, key);
        let claimants = self.routes.claimants_of(peer);
        if claimants.len() > CLAIMANTS
            && let older = claimants.iter().copied().filter(|&claimant| claimant != key)
            && let Some(last) = older.min_by_key(|&claimant| standing(&self.connections, claimant))
        {
            self.close(last, LinkError::Replaced);
        }
        self.plan_sweep();
    }

    /// Another connection has become the route, as that has ended: who says a name last must not have it for that.
    pub(super) fn inherited(&mut self, peer: NodeId) {
        if peer < FIRST_CLIENT && self.routes.get(peer).is_some() {
            self.claims.push(peer);
        }
    }

    /// Whether a server is to be called now because somebody has come in under its name.
    pub(crate) fn may_verify(&mut self, peer: NodeId) -> bool {
        let route = self.routes.get(peer).and_then(|route| self.connections.get(&route));
        // A route that was dialed leads to where the server is: that has been verified.
        let is_doubtful = |route: &Connection| route.is_open() && !route.dialed;
        let may = route.is_some_and(is_doubtful) && self.routes.may_verify(peer, self.now);
        // What is owed is looked at again then.
        self.plan_sweep();
        may
    }

    /// Calls a server to see who answers at its address, if that is known. A call that fails changes nothing.
    pub(crate) fn verify(&mut self, peer: NodeId) {
        if !self.book.may_dial(peer, self.now) {
            return self.routes.owe(peer);
        }
        let Some(address) = self.book.address(peer).cloned() else { return };
        let called = self.call(peer, &address);
        self.routes.verify(peer, called.as_ref().ok().copied(), self.now);
        if let Err(why) = called {
            self.routes.owe(peer);
            self.notices.push(Notice::Closed { peer, why });
        }
    }

    /// Gives the places of routes that are lost to claimants that are heard.
    pub(super) fn settle_claims(&mut self) {
        self.claims.extend(self.routes.take_owed());
        let best = |(peer, claimants): (NodeId, &[u64])| {
            let heard = claimants.iter().copied().filter(|&key| self.outlasts(peer, key));
            Some((peer, heard.max_by_key(|&key| standing(&self.connections, key))?))
        };
        let taken: Vec<_> = self.routes.claimants().filter_map(best).collect();
        for (peer, key) in taken {
            self.claims.push(peer);
            self.replace(peer, key);
        }
    }

    /// Whether the claimant rather than the route is where the server is heard.
    fn outlasts(&self, peer: NodeId, claimant: u64) -> bool {
        let route = self.routes.get(peer).and_then(|route| self.connections.get(&route));
        let Some((route, claimant)) = route.zip(self.connections.get(&claimant)) else { return false };
        // On what was dialed the server need not speak: it may do so on its own.
        let is_lost = if route.dialed { route.is_stalled(self.now, QUIET) } else { route.is_quiet(self.now) };
        is_lost && claimant.spoken.is_some_and(|spoken| spoken.since(route.heard) >= QUIET)
    }
}
