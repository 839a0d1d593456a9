//! The cluster's clock, as one server sees it.
//!
//! The clock is a number that only grows: all commits that were acknowledged are at or before it, and a new snapshot is
//! where it is when it is asked. So a snapshot sees whatever was acknowledged before it was asked for, on any server. One
//! question serves all who wait.
//!
//! A server that is about to commit what is based on nothing that was read has it go on when it asks, by a number for each.
//! Commits at these are after all that was acknowledged before, and need not be told before they are acknowledged.
//!
//! *Known as:* a client of the timestamp oracle.

use super::Turn;
use crate::message::Message;
use fulmar_kv::Timestamp;
use fulmar_node::Time;

#[derive(Debug, Default)]
pub(super) struct Clock {
    /// It was here when it was asked last; nothing before it was heard of.
    now: Option<Timestamp>,
    /// It is here at least.
    reached: Timestamp,
    /// How far the next question is to have it go on.
    goes_on: u64,
    /// Where it was, one further, when this server first heard of it.
    born: Timestamp,
    /// Shards that are opened from now on do not know what older snapshots have seen.
    lost: Timestamp,
    /// No snapshot of the cluster is older.
    watermark: Timestamp,
    /// What this server has committed.
    reach: Timestamp,
    /// Counts questions, from a number on that was not used before this server began: what was sent to it before is no
    /// answer.
    first: u64,
    asked: u64,
    is_asked: bool,
}

impl Clock {
    pub(super) fn start(&mut self, now: Time) {
        self.first = now.as_nanos();
        self.asked = self.first;
    }

    pub(super) fn is_known(&self) -> bool {
        self.now.is_some()
    }

    /// Where it was when it was asked last. That was after all that was acknowledged before.
    pub(super) fn now(&self) -> Timestamp {
        self.now.unwrap_or_default()
    }

    /// Commits up to here may be acknowledged: all snapshots that are asked for from now on will see them.
    pub(super) fn reached(&self) -> Timestamp {
        self.reached
    }

    /// With the next question it is to go on, for one more commit.
    pub(super) fn go_on(&mut self) {
        self.goes_on += 1;
    }

    /// What snapshots see that were opened before this server began, or before a disk failed, may be lost, and is forgotten in any case
    /// below the watermark.
    pub(super) fn forgotten(&self) -> Timestamp {
        self.watermark.max(self.born).max(self.lost)
    }

    /// Where it was, one further, when this server first heard of it: no server that began at another time has heard of
    /// the same.
    pub(super) fn born(&self) -> Timestamp {
        self.born
    }

    pub(super) fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Which question's answer will be new.
    pub(super) fn next(&self) -> u64 {
        self.asked + 1
    }

    /// Takes an answer, that it was at `now` and went on to `reached`; says whether it is one, and new enough.
    pub(super) fn hear(
        &mut self,
        number: u64,
        (now, reached): (Timestamp, Timestamp),
        watermark: Timestamp,
    ) -> bool {
        if number <= self.first || number > self.asked {
            return false;
        }
        self.is_asked &= number != self.asked;
        if self.born == Timestamp(0) {
            // It has to go on first, so that no snapshot of before is one of afterwards.
            self.born = Timestamp(now.0 + 1);
            self.reach = self.reach.max(self.born);
        }
        if self.now.is_none() && now < self.born {
            return false;
        }
        self.now = self.now.max(Some(now));
        self.reached = self.reached.max(reached).max(now);
        self.watermark = self.watermark.max(watermark);
        true
    }
}

impl Turn<'_> {
    /// Has the clock go to `at` at least.
    pub(super) fn reach(&mut self, at: Timestamp) {
        if at > self.known.clock.reach {
            self.known.clock.reach = at;
        }
        if self.known.clock.reached < at {
            self.ask_time();
        }
    }

    /// A shard that is opened again after its disk has failed may hold what snapshots up to this one have not seen there.
    pub(super) fn lose_snapshots(&mut self, upto: Timestamp) {
        let lost = Timestamp(upto.0 + 1);
        self.known.clock.lost = self.known.clock.lost.max(lost);
        self.reach(lost);
    }

    /// Asks where the clock is, unless an answer is on its way.
    pub(super) fn ask_time(&mut self) {
        if !self.known.clock.is_asked {
            self.ask_time_again();
        }
    }

    /// Asks, whatever has become of the last question.
    pub(super) fn ask_time_again(&mut self) {
        self.known.clock.is_asked = true;
        self.known.clock.asked += 1;
        let (number, reached) = (self.known.clock.asked, self.known.clock.reach);
        let goes_on = std::mem::take(&mut self.known.clock.goes_on);
        let oldest = self.known.oldest();
        self.send(self.known.map.manager, Message::Clock { number, reached, goes_on, oldest });
    }

    /// Asks again, if some commit still waits for the clock.
    pub(super) fn catch_up(&mut self) {
        if self.known.clock.reach > self.known.clock.reached {
            self.ask_time();
        }
    }
}
