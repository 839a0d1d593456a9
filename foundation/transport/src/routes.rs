//! Which connection each peer is sent to on, and which others there are in its name.
//!
//! A name is believed as it is said. So that nobody loses a connection to who only says its name, a server has at most these:
//!
//! | connection | is | read from | sent to on |
//! | --- | --- | --- | --- |
//! | route | open, or dialed and not answered yet | yes | yes |
//! | claimants, a few | open, came in while the route was open and heard, or were the route before | yes | no |
//! | call | dialed while the route is open, for one of the [purposes](Purpose), not answered yet | its answer | its greeting |
//!
//! When the route ends a claimant takes its place, or else the call does. Whose route was not dialed, and was contested, is owed a call.

use crate::hello::FIRST_CLIENT;
use fulmar_node::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A connection on which nothing came for so long may have lost its other end. As long there is between two calls of one
/// server that verify a name, and up to eight times as long while nobody answers.
pub(crate) const QUIET: Duration = Duration::from_secs(1);

/// Why a server is called that has an open route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody else says its name: who answers at its address has it.
    Verify,
    /// It was dialed before its own connection came, which is the route.
    Crossed,
    /// What is sent on the route does not arrive.
    Renew,
}

/// Calls that verify a server's name.
#[derive(Clone, Copy, Debug)]
struct Verified {
    last: Time,
    /// How many were not answered since one was.
    unanswered: u32,
}

impl Verified {
    /// How long after the last one the next may follow.
    fn pause(self) -> Duration {
        QUIET * (1 << self.unanswered.saturating_sub(1).min(3))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: BTreeMap<NodeId, u64>,
    /// Those of servers that have an open route, in the order in which they came to be it. None is empty.
    claimants: BTreeMap<NodeId, Vec<u64>>,
    /// Each is of a server that has an open route.
    calls: BTreeMap<NodeId, (u64, Purpose)>,
    /// How each server was called to verify its name. Only servers whose addresses are known are.
    verified: BTreeMap<NodeId, Verified>,
    /// Servers that are to be called to verify their names, as soon as they may.
    owed: BTreeSet<NodeId>,
}

impl Routes {
    pub(crate) fn get(&self, peer: NodeId) -> Option<u64> {
        self.routes.get(&peer).copied()
    }

    /// How many connections have names.
    pub(crate) fn count(&self) -> usize {
        self.routes.len() + self.claimants.values().map(Vec::len).sum::<usize>()
    }

    /// Makes a connection the route, whatever it was; answers with the route before.
    pub(crate) fn set(&mut self, peer: NodeId, key: u64) -> Option<u64> {
        self.end_claim(peer, key);
        self.routes.insert(peer, key)
    }

    /// The server has connected before it has answered: its connection is the route, and the one that was is a call.
    pub(crate) fn cross(&mut self, peer: NodeId, key: u64) {
        if let Some(dialed) = self.routes.insert(peer, key) {
            self.calls.insert(peer, (dialed, Purpose::Crossed));
        }
    }

    /// Makes a connection a claimant.
    pub(crate) fn claim(&mut self, peer: NodeId, key: u64) {
        self.claimants.entry(peer).or_default().push(key);
    }

    fn end_claim(&mut self, peer: NodeId, key: u64) {
        if let Some(claimants) = self.claimants.get_mut(&peer) {
            claimants.retain(|&claimant| claimant != key);
            if claimants.is_empty() {
                self.claimants.remove(&peer);
            }
        }
    }

    /// The claimants of each server's name.
    pub(crate) fn claimants(&self) -> impl Iterator<Item = (NodeId, &[u64])> {
        self.claimants.iter().map(|(&peer, claimants)| (peer, &claimants[..]))
    }

    pub(crate) fn claimants_of(&self, peer: NodeId) -> &[u64] {
        self.claimants.get(&peer).map_or(&[], Vec::as_slice)
    }

    /// Whether names are contested.
    pub(crate) fn are_contested(&self) -> bool {
        !self.claimants.is_empty() || !self.owed.is_empty()
    }

    /// Whether a server may be called now to verify its name. If not yet, it is owed a call.
    pub(crate) fn may_verify(&mut self, peer: NodeId, now: Time) -> bool {
        let is_recent = self.verified.get(&peer).is_some_and(|calls| now.since(calls.last) < calls.pause());
        let may = !is_recent && !self.calls.contains_key(&peer);
        if !may {
            self.owed.insert(peer);
        }
        may
    }

    /// A server is called, unless that has failed at once.
    pub(crate) fn verify(&mut self, peer: NodeId, key: Option<u64>, now: Time) {
        let calls = self.verified.entry(peer).or_insert(Verified { last: now, unanswered: 0 });
        *calls = Verified { last: now, unanswered: calls.unanswered.saturating_add(1) };
        if let Some(key) = key {
            self.calls.insert(peer, (key, Purpose::Verify));
        }
    }

    /// A server has answered that was called to verify its name.
    pub(crate) fn answered(&mut self, peer: NodeId) {
        self.verified.entry(peer).and_modify(|calls| calls.unanswered = 0);
    }

    /// A server is called as its route stands still.
    pub(crate) fn renew(&mut self, peer: NodeId, key: u64) {
        self.calls.insert(peer, (key, Purpose::Renew));
    }

    /// The routes of servers.
    pub(crate) fn of_servers(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.routes.range(..FIRST_CLIENT).map(|(&peer, &key)| (peer, key))
    }

    /// A server is to be called later.
    pub(crate) fn owe(&mut self, peer: NodeId) {
        self.owed.insert(peer);
    }

    pub(crate) fn take_owed(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.owed)
    }

    pub(crate) fn call(&self, peer: NodeId) -> Option<u64> {
        self.calls.get(&peer).map(|&(key, _)| key)
    }

    /// A connection is no call any more, if it was one.
    pub(crate) fn end_call(&mut self, peer: NodeId, key: u64) -> Option<Purpose> {
        if self.call(peer) != Some(key) {
            return None;
        }
        self.calls.remove(&peer).map(|(_, purpose)| purpose)
    }

    /// A connection is no more that is no call. Whether it was the route; then the claimant with the best standing is it.
    pub(crate) fn end<S: Ord>(&mut self, peer: NodeId, key: u64, standing: impl Fn(u64) -> S) -> bool {
        self.end_claim(peer, key);
        if self.routes.get(&peer) != Some(&key) {
            return false;
        }
        let claimant = self.claimants_of(peer).iter().copied().max_by_key(|&claimant| standing(claimant));
        claimant.into_iter().for_each(|claimant| self.end_claim(peer, claimant));
        let next = claimant.or_else(|| self.calls.remove(&peer).map(|(call, _)| call));
        match next {
            Some(next) => drop(self.routes.insert(peer, next)),
            None => drop(self.routes.remove(&peer)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(1);

    #[test]
    fn claimants_follow_the_route_and_the_call_follows_both() {
        let mut routes = Routes::default();
        assert_eq!(routes.set(PEER, 1), None);
        routes.cross(PEER, 2);
        (3..7).for_each(|claimant| routes.claim(PEER, claimant));
        assert_eq!((routes.get(PEER), routes.count()), (Some(2), 5));
        // The odd ones stand better.
        let end = |routes: &mut Routes, key| routes.end(PEER, key, |claimant| (claimant % 2, claimant));
        assert!(!end(&mut routes, 3), "it was no route");
        for (ended, next) in [(2, 5), (5, 6), (6, 4)] {
            assert!(end(&mut routes, ended));
            assert_eq!((routes.get(PEER), routes.call(PEER)), (Some(next), Some(1)));
        }
        assert!(end(&mut routes, 4) && !routes.are_contested());
        assert_eq!((routes.get(PEER), routes.call(PEER)), (Some(1), None));
        assert!(end(&mut routes, 1));
        assert_eq!((routes.get(PEER), routes.count()), (None, 0));
    }

    #[test]
    fn a_name_is_verified_by_one_call_at_a_time_and_ever_less_often_while_nobody_answers() {
        let mut routes = Routes::default();
        let mut now = Time::ZERO + QUIET;
        routes.set(PEER, 1);
        assert!(routes.may_verify(PEER, now));
        routes.verify(PEER, Some(3), now);
        now = now + QUIET;
        assert!(!routes.may_verify(PEER, now), "a call is under way");
        assert!(routes.take_owed().contains(&PEER));
        assert_eq!(routes.end_call(PEER, 3), Some(Purpose::Verify));
        assert!(routes.may_verify(PEER, now));
        routes.verify(PEER, None, now);
        assert!(!routes.may_verify(PEER, now), "the last call was just now");
        for pause in [2, 4, 8, 8] {
            assert!(!routes.may_verify(PEER, now + QUIET * pause - Duration::from_nanos(1)));
            now = now + QUIET * pause;
            assert!(routes.may_verify(PEER, now));
            routes.verify(PEER, None, now);
        }
        routes.answered(PEER);
        assert!(routes.may_verify(PEER, now + QUIET));
    }
}
