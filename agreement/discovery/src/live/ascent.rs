//! What a follower hands up to its centre, and when it speaks to it next.

use super::member::Member;
use super::message::{ROOM, put_member};
use super::pace;
use super::roster::Roster;
use fulmar_node::Time;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Ascent {
    /// Of whom something is known here that did not come from the centre, nor was acknowledged by one.
    pending: BTreeSet<SocketAddr>,
    /// What was sent last, with its stamp: acknowledged by the answer to just that.
    flight: Option<(u64, Vec<Member>)>,
    /// When it speaks next…
    pub(super) due: Time,
    /// …and when it has spoken.
    last: Time,
    /// The longest time between the two.
    pub(super) beat: Duration,
}

impl Ascent {
    pub(super) const fn new() -> Self {
        let (due, last) = (Time::ZERO, Time::ZERO);
        Self { pending: BTreeSet::new(), flight: None, due, last, beat: pace::BUSY }
    }

    /// The centre is to learn this, soon.
    pub(super) fn add(&mut self, now: Time, address: SocketAddr) {
        self.pending.insert(address);
        self.hasten(now);
    }

    /// The centre knows this, for it has said so; or this node does not, any more.
    pub(super) fn drop(&mut self, address: SocketAddr) {
        self.pending.remove(&address);
    }

    /// Speaks soon, with what else is learned until then.
    pub(super) fn hasten(&mut self, now: Time) {
        self.beat = pace::BUSY;
        self.due = self.due.min((self.last + pace::TOGETHER).max(now));
    }

    /// Confirms another view, once it has lasted a little.
    pub(super) fn confirm(&mut self, now: Time) {
        self.beat = pace::BUSY;
        self.due = self.due.min(now + pace::PATIENCE);
    }

    /// Another centre knows nothing of what is under way.
    pub(super) fn turn(&mut self, now: Time) {
        self.flight = None;
        self.hasten(now);
    }

    /// What to hand up now, as far as it fits.
    pub(super) fn depart(&mut self, now: Time, stamp: u64, roster: &Roster) -> Vec<Member> {
        let members = fitting(self.pending.iter().filter_map(|address| roster.get(*address)));
        self.flight = Some((stamp, members.clone()));
        self.last = now;
        self.due = now + self.beat;
        members
    }

    /// The centre has answered what was sent with this stamp. Says whether that was what was sent last, for the first time.
    pub(super) fn arrived(&mut self, now: Time, stamp: u64, roster: &Roster) -> bool {
        let Some((_, members)) = self.flight.take_if(|(sent, _)| *sent == stamp) else { return false };
        for member in members {
            if roster.get(member.address) == Some(&member) {
                self.pending.remove(&member.address);
            }
        }
        if !self.pending.is_empty() {
            self.hasten(now);
        }
        true
    }

    /// Of whom something is to be handed up.
    #[cfg(test)]
    pub(super) fn pending(&self) -> impl Iterator<Item = SocketAddr> {
        self.pending.iter().copied()
    }

    /// Whether all that is known here was handed up, as far as this node can tell.
    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.flight.is_none()
    }

    /// Nothing changes: there is less and less to say.
    pub(super) fn slow_down(&mut self) {
        self.beat = (self.beat * 2).min(pace::IDLE);
    }
}

/// The first of these, as many as fit a message.
pub(super) fn fitting<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<Member> {
    let mut bytes = Vec::new();
    let fits = |member: &&Member| {
        put_member(&mut bytes, member);
        bytes.len() <= ROOM
    };
    members.take_while(fits).cloned().collect()
}
