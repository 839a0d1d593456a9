//! Which connection in a server's name is the one on which it is sent to.
//!
//! Names are believed as they are said, by whoever can reach the port. So a connection takes the route of another only if that has
//! been silent; else it is a claimant, and the server is called at its address: who answers there has the name.
//!
//! Two servers whose names are claimed again and again each send on what they have dialed, and read that of the other among the claimants
//! in its name. So there is room for some, and those make room first that have said nothing but a name.

use super::{Connection, Net, Stage};
use crate::hello::FIRST_CLIENT;
use crate::link::LinkError;
use crate::notice::Notice;
use crate::routes::{Purpose, QUIET};
use fulmar_node::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many there are at most in a name, beside the route.
const CLAIMANTS: usize = 16;

/// By what a claimant is preferred to others: this server has dialed it, and messages have come on it, the later the better.
pub(super) fn standing(connections: &BTreeMap<u64, Connection>, key: u64) -> (bool, Option<Time>, u64) {
    let (is_dialed, spoken) =
        connections.get(&key).map_or((false, None), |claimant| (claimant.dialed, claimant.spoken));
    (is_dialed, spoken, key)
}

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
            // One that was dialed leads to the server, though that may speak elsewhere: it is called again.
            Some(before) if !before.dialed && before.is_quiet(now, QUIET) => self.replace(peer, key),
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
            Some(Purpose::Verify) => {
                self.agree(peer, key);
                // What was sent before may have come to somebody else.
                self.disconnected.push(peer);
            }
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
        self.routes.claim(peer, key);
        let claimants = self.routes.claimants_of(peer);
        if claimants.len() > CLAIMANTS
            && let Some(&last) = claimants.iter().min_by_key(|&&key| standing(&self.connections, key))
        {
            self.close(last, LinkError::Replaced);
        }
        self.plan_sweep();
    }

    /// A claimant has become the route, as that has ended: who says a name last must not have it for that.
    pub(super) fn inherited(&mut self, peer: NodeId) {
        if peer < FIRST_CLIENT && self.routes.get(peer).is_some() {
            self.claims.push(peer);
        }
    }

    /// Whether a server is to be called now because somebody has come in under its name.
    pub(crate) fn may_verify(&mut self, peer: NodeId) -> bool {
        let route = self.routes.get(peer).and_then(|route| self.connections.get(&route));
        // A route that was dialed is heard from where the server is: that has been verified, unless it is silent.
        let is_verified = |route: &Connection| route.dialed && !route.is_quiet(self.now, QUIET);
        let may = route.is_some_and(|route| !is_verified(route)) && self.routes.may_verify(peer, self.now);
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

    /// Gives the places of routes that have fallen silent to claimants that are heard.
    pub(super) fn settle_claims(&mut self) {
        self.claims.extend(self.routes.take_owed());
        let best = |(peer, claimants): (NodeId, &[u64])| {
            let heard = claimants.iter().copied().filter(|&key| self.outlasts(peer, key));
            Some((peer, heard.max_by_key(|&key| standing(&self.connections, key))?))
        };
        let taken: Vec<_> = self.routes.claimants().filter_map(best).collect();
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
        let is_heard = claimant.spoken.is_some_and(|spoken| spoken.since(route.heard) >= patience);
        let is_silent = route.is_quiet(self.now, patience) && is_heard;
        // What a server has sent on both before they agreed on one is long past. (Signs of life come on each.)
        let speaks = |at: Time| at.since(claimant.begun) >= QUIET * 2 && self.now.since(at) < QUIET * 2;
        let is_verified = claimant.dialed && !route.dialed && claimant.spoken.is_some_and(speaks);
        is_silent || is_verified
    }
}
