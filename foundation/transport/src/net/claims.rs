//! Which connection in a server's name is the one on which it is sent to.
//!
//! Names are believed as they are said, by whoever can reach the port. So a connection takes the route of another only if that has
//! been silent; else it is a claimant, and the server is called at its address: who answers there has the name.

use super::{Connection, Net, Stage};
use crate::link::LinkError;
use crate::notice::Notice;
use crate::routes::{Purpose, QUIET};
use fulmar_node::{NodeId, Time};
use std::time::Duration;

impl Connection {
    const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Nothing came for so long, nor is there anything to read: after a long turn that is to be read first.
    fn is_quiet(&self, now: Time, long: Duration) -> bool {
        !self.readable && now.since(self.heard) >= long
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
            // Both have dialed, and this one was answered before it has heard the other.
            Some(before) if before.dialed && now.since(before.begun) < QUIET && peer < self.me => {
                self.agree(peer, key);
            }
            Some(before) if before.is_quiet(now, QUIET) => self.replace(peer, key),
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
            Some(Purpose::Verify) => self.replace(peer, key),
            Some(Purpose::Renew) => self.renewed(peer, key),
            // Both ends have dialed, and agree on the connection that the server with the lower name has dialed: each hears the
            // other on its route.
            Some(Purpose::Crossed) if self.me < peer => self.agree(peer, key),
            Some(Purpose::Crossed) => self.claim(peer, key),
        }
    }

    /// Makes a connection the route in place of an open one, which is read from still.
    fn agree(&mut self, peer: NodeId, key: u64) {
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
        if let Some(older) = self.routes.claim(peer, key) {
            self.close(older, LinkError::Replaced);
        }
        self.plan_sweep();
    }

    /// Whether a server is to be called now because somebody has come in under its name.
    pub(crate) fn may_verify(&mut self, peer: NodeId) -> bool {
        let route = self.routes.get(peer).and_then(|route| self.connections.get(&route));
        // A route that was dialed is heard from where the server is: that has been verified.
        route.is_some_and(|route| !route.dialed) && self.routes.may_verify(peer, self.now)
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

    /// Gives the places of routes that have fallen silent to claimants that are heard.
    pub(super) fn settle_claims(&mut self) {
        self.claims.extend(self.routes.take_owed());
        let taken: Vec<_> = self.routes.claimants().filter(|&(peer, key)| self.outlasts(peer, key)).collect();
        for (peer, key) in taken {
            self.replace(peer, key);
        }
    }

    /// Whether the claimant rather than the route is where the server is heard.
    fn outlasts(&self, peer: NodeId, claimant: u64) -> bool {
        let route = self.routes.get(peer).and_then(|route| self.connections.get(&route));
        let Some((route, claimant)) = route.zip(self.connections.get(&claimant)) else { return false };
        // Two servers that each send on what they have dialed must not both give that up.
        let patience = if route.dialed && self.me < peer { QUIET * 3 } else { QUIET };
        let is_silent = route.is_quiet(self.now, patience) && claimant.heard.since(route.heard) >= patience;
        // What a server has sent on both before they agreed on one is long past. (Signs of life come on each.)
        let speaks = |at: Time| at.since(claimant.begun) >= QUIET * 2 && self.now.since(at) < QUIET * 2;
        let is_verified = claimant.dialed && !route.dialed && claimant.spoken.is_some_and(speaks);
        is_silent || is_verified
    }
}
