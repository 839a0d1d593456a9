//! When a view is stable, and how that is known.
//!
//! A centre stamps what it says with its clock, and a follower names the newest stamp that it has got when it says which view it
//! has. So the centre knows a moment after which the follower had that view, though no two clocks agree and messages may be
//! late. Its verdict goes to each follower as an answer, so that this, in turn, knows a moment before it.

use super::super::member::{Member, Standing};
use super::super::message::Verdict;
use super::super::pace;
use super::super::roster::Digest;
use super::{Event, Finder, micros};
use fulmar_node::{Outbox, Time};
use std::net::SocketAddr;
use std::time::Duration;

/// A stable view, and how that is known: each of `members` has held exactly this view at some moment of the time `within` before
/// this was told, by the clocks of this node and of `centre`, and would have it stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stable {
    /// The view, in the order of addresses.
    pub members: Vec<Member>,
    /// Its digest, which all have confirmed.
    pub digest: Digest,
    /// Who has gathered the confirmations.
    pub centre: SocketAddr,
    /// How old the oldest confirmation may be.
    pub within: Duration,
    /// Addresses that this node was started with and nobody has answered at.
    pub unanswered: Vec<SocketAddr>,
}

/// What keeps a view from being stable, as far as a node can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Addresses that it was started with and nobody has answered at.
    pub unanswered: Vec<SocketAddr>,
    /// Nodes that are suspected.
    pub suspected: Vec<SocketAddr>,
    /// If this node is the centre: who has not confirmed the view.
    pub unconfirmed: Vec<SocketAddr>,
}

impl Finder {
    /// What keeps the view from being stable now.
    #[must_use]
    pub fn missing(&self, now: Time) -> Missing {
        let suspect = |member: &&Member| member.standing == Standing::Suspect;
        let unconfirmed = self.peers.iter().filter(|_| self.is_centre());
        Missing {
            unanswered: self.contacts.unanswered(&self.roster).collect(),
            suspected: self.roster.live().filter(suspect).map(|member| member.address).collect(),
            unconfirmed: unconfirmed
                .filter(|(_, peer)| self.age(now, peer.confirmed).is_none())
                .map(|(address, _)| address)
                .collect(),
        }
    }

    /// How long ago somebody may have held this node's view who has said so.
    fn age(&self, now: Time, confirmed: Option<(Digest, u64)>) -> Option<Duration> {
        let (digest, after) = confirmed?;
        let age = Duration::from_micros(micros(now.since(Time::ZERO)).saturating_sub(after));
        #[cfg(test)]
        if self.defect == Some(super::super::simulation::Defect::ConfirmsAnything) {
            return (age <= pace::FRESH).then_some(age);
        }
        #[cfg(test)]
        if self.defect == Some(super::super::simulation::Defect::ConfirmsForever) {
            return (digest == self.roster.digest()).then_some(Duration::ZERO);
        }
        (digest == self.roster.digest() && age <= pace::FRESH).then_some(age)
    }

    /// Whether the view is stable, if it is this node's to say so: the age of the oldest confirmation.
    pub(super) fn judge(&self, now: Time) -> Option<Duration> {
        let is_first = self.roster.live().next().is_some_and(|first| first.address == self.me.address);
        let is_calm = now.since(self.seen.1) >= pace::CALM && self.seen.0 == self.roster.digest();
        #[cfg(test)]
        let is_calm = is_calm || self.defect == Some(super::super::simulation::Defect::NeverWaits);
        if !is_first || !is_calm || !self.contacts.are_settled(&self.roster) {
            return None;
        }
        if self.roster.live().any(|member| member.standing == Standing::Suspect) {
            return None;
        }
        self.peers
            .iter()
            .try_fold(Duration::ZERO, |oldest, (_, peer)| Some(oldest.max(self.age(now, peer.confirmed)?)))
    }

    /// Declares its own view stable, if it is.
    pub(super) fn judge_own(&mut self, now: Time, out: &mut Outbox<Self>) {
        if self.stable.is_none()
            && self.farewell.is_none()
            && let Some(within) = self.judge(now)
        {
            self.declare(self.me.address, within, out);
        }
    }

    /// The centre has a view stable, and says so after this node's message with the stamp `after`.
    pub(super) fn heed_verdict(
        &mut self,
        now: Time,
        centre: SocketAddr,
        after: u64,
        verdict: Verdict,
        out: &mut Outbox<Self>,
    ) {
        if verdict.digest != self.roster.digest() {
            return;
        }
        if self.stable == Some(verdict.digest) {
            return self.ascent.slow_down();
        }
        let passed = Duration::from_micros(micros(now.since(Time::ZERO)).saturating_sub(after));
        self.declare(centre, passed + verdict.age, out);
    }

    fn declare(&mut self, centre: SocketAddr, within: Duration, out: &mut Outbox<Self>) {
        let digest = self.roster.digest();
        self.stable = Some(digest);
        out.event(Event::Stable(Stable {
            members: self.roster.live().cloned().collect(),
            digest,
            centre,
            within,
            unanswered: self.contacts.unanswered(&self.roster).collect(),
        }));
    }
}
