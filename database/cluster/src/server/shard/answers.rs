//! When a shard answers.
//!
//! What a shard has carried out may yet be lost: the disk may not have it, nor the replicas, which may follow another by now;
//! and before the cluster's clock has reached it, a snapshot that is newer than the answer would not see it. So whatever
//! tells of a change is held back until none of this can happen ([`Shard::tell_when`]), and so is what a reader sees of it
//! ([`Shard::show`]). What may be told at once is a type of its own, [`Refused`]: no value of it can tell of a change, so an
//! answer that comes too early cannot be written. Of what was asked for before it waits, too ([`Shard::tell_as_leader`]): who leads the
//! replicas by now may have done it.
//!
//! *Known as:* output commit, acknowledgement after replication, commit wait.

use super::super::{AtOnce, Turn};
use super::{Asked, Shard, Task};
use crate::message::{Answer, Message};
use fulmar_kv::{Durability, Error, ObjectId, Outcome, Timestamp};
use fulmar_node::{Lsn, NodeId};
use std::collections::VecDeque;

/// Answers to readers that wait have no more bytes, if they are not a single one's.
const MOST_SHOWN: u64 = 64 << 20;

/// Why what was asked for was not done here.
pub(super) enum Refused {
    /// The cells are elsewhere by now.
    Misplaced,
    /// It may have been done before.
    Unknown,
    /// A snapshot does not see what was expected of it.
    Unexpected,
    Failed(Error),
}

/// What was done, or made sure of, and is to be told.
#[derive(Default)]
pub(in super::super) struct Done<'a> {
    /// The clock must be there first.
    pub(in super::super) reach: Timestamp,
    pub(in super::super) sends: Vec<(NodeId, Message)>,
    pub(in super::super) reply: Option<(&'a Asked, Answer)>,
    pub(in super::super) written: Vec<ObjectId>,
}

/// What is to be told when a record is durable and the clock has reached a time.
pub(super) struct Waiting {
    until: Lsn,
    reach: Timestamp,
    sends: Vec<(NodeId, Message)>,
    reply: Option<(NodeId, u64, Answer)>,
    written: Vec<ObjectId>,
    /// The bytes of what a reader is to be shown.
    shown: u64,
}

impl Shard {
    /// Whether a change is the client's next. One that was carried out before would conflict with itself, so it is never
    /// done twice, but the client would be told the wrong thing.
    pub(super) fn is_next(&mut self, client: NodeId, number: u64, turn: &mut Turn<'_>) -> bool {
        match self.last.get(&client) {
            Some((last, answer)) if *last >= number => {
                if let Some(answer) = answer.clone().filter(|_| *last == number) {
                    turn.send(client, Message::Answer { number, answer });
                }
                false
            }
            _ => {
                self.last.insert(client, (number, None));
                true
            }
        }
    }

    /// What is done is told as soon as it is as durable as this and the clock has reached it. Once a write or a sync has failed nothing
    /// is: what is known here may not be what the disk holds.
    pub(in super::super) fn tell_when(
        &mut self,
        durability: Durability,
        done: Done<'_>,
        turn: &mut Turn<'_>,
    ) {
        let Done { reach, sends, reply, written } = done;
        let reply = reply.map(|(asked, answer)| (asked.client, asked.number, answer));
        if let Some(error) = self.database.storage().failure() {
            if reach > Timestamp(0) {
                self.doubt(reach, !sends.is_empty());
            }
            if let Some((client, number, _)) = reply {
                let answer = match self.is_replicated() {
                    true => Answer::Elsewhere,
                    false => Answer::Failed(turn.failed(error.of_unknown_outcome())),
                };
                self.reply(client, number, answer, turn);
            }
            return;
        }
        let until = match durability {
            Durability::Synced => self.ledger.record(&self.database, turn),
            // With what is already on its way, if something is.
            Durability::Written => self.ledger.recorded(turn),
        };
        self.waiting.push_back(Waiting { until, reach, sends, reply, written, shown: 0 });
        self.release(turn);
    }

    /// Tells a reader what its snapshot sees, as soon as none of that can be lost any more. While too much waits to be shown, it is to ask
    /// again.
    pub(super) fn show(&mut self, asked: &Asked, at: Timestamp, answer: Answer, turn: &mut Turn<'_>) {
        let is_unsure = self.first_unsure().is_some_and(|first| first <= at);
        match self.waiting.back().filter(|_| is_unsure) {
            Some(last) => {
                let shown = answer.weight();
                if self.shown > 0 && self.shown + shown > MOST_SHOWN {
                    return self.turn_away(asked, turn);
                }
                self.shown += shown;
                let (until, reply) = (last.until, Some((asked.client, asked.number, answer)));
                let (sends, written) = (Vec::new(), Vec::new());
                self.waiting.push_back(Waiting { until, reach: Timestamp(0), sends, reply, written, shown });
                self.release(turn);
            }
            None => self.reply(asked.client, asked.number, answer, turn),
        }
    }

    /// Tells a client that asks again what has become of its transaction.
    pub(super) fn tell_outcome(
        &mut self,
        asked: &Asked,
        outcome: Outcome,
        durability: Durability,
        turn: &mut Turn<'_>,
    ) {
        match outcome {
            Outcome::Committed(at) => {
                let done = Done { reach: at, reply: Some((asked, Answer::At(at))), ..Done::default() };
                self.tell_when(durability, done, turn);
            }
            Outcome::Aborted => self.refuse(asked, Refused::Failed(Error::Conflict), turn),
        }
    }

    /// Whether a transaction that was asked for before, and of which nothing is known, may have taken place; it has then after this.
    pub(super) fn may_have_committed(&self, after: Timestamp) -> bool {
        self.database.storage().may_have_committed(after)
    }

    /// Says why something is not done. Of what may have been done when it was asked for before, and is forgotten, nobody can
    /// tell: it would be in its own way.
    pub(super) fn refuse(&mut self, asked: &Asked, refused: Refused, turn: &mut Turn<'_>) {
        let transaction = asked.task.commits().map(|(transaction, _)| transaction);
        let is_unknown =
            || asked.again && asked.task.after().is_some_and(|after| self.may_have_committed(after));
        let refused = match refused {
            Refused::Misplaced | Refused::Failed(Error::Conflict | Error::SnapshotGone | Error::Excluded)
                if is_unknown() =>
            {
                Refused::Unknown
            }
            // A failed write hides what was carried out before.
            Refused::Failed(error)
                if asked.again && transaction.is_some() && self.database.storage().has_failed() =>
            {
                Refused::Failed(error.of_unknown_outcome())
            }
            refused => refused,
        };
        self.close_untold(asked.client, asked.number, turn);
        let denied = transaction.filter(|_| !matches!(refused, Refused::Unknown));
        // Nobody has ever done that.
        let is_too_large = matches!(&refused, Refused::Failed(error) if error.is_of_size());
        let answer = match refused {
            Refused::Misplaced => Answer::Misplaced,
            Refused::Unknown => Answer::Unknown,
            Refused::Unexpected => Answer::Unexpected,
            Refused::Failed(error) => Answer::Failed(turn.failed(error)),
        };
        let storage = self.database.storage();
        if let Some(transaction) = transaction {
            storage.outcomes(|outcomes| outcomes.refuse(transaction));
        }
        // What is done without a snapshot is done when the clock has told that this server leads.
        let may_be_late = asked.again || matches!(asked.task, Task::Commit(..) | Task::Decide(..));
        if is_too_large || !(may_be_late && transaction.is_some() && self.is_replicated()) {
            return self.reply(asked.client, asked.number, answer, turn);
        }
        // Another may lead the replicas by now, and have done it when it was asked again; and who leads them next may hear late of what was
        // asked first.
        let denied = denied.filter(|_| asked.again);
        let written = denied.map_or(Ok(()), |transaction| storage.refuse(transaction));
        let done = Done { reply: Some((asked, answer)), ..Done::default() };
        if written.and_then(|()| self.tell_as_leader(done, turn)).is_err() {
            self.reply(asked.client, asked.number, Answer::Elsewhere, turn);
        }
    }

    /// Tells what is so only if no other server serves the shard by now: as soon as something is durable that was written after it was
    /// found.
    pub(super) fn tell_as_leader(&mut self, done: Done<'_>, turn: &mut Turn<'_>) -> Result<(), Error> {
        self.database.storage().pass(Timestamp(0))?;
        self.tell_when(Durability::Synced, done, turn);
        Ok(())
    }

    /// Tells a client that begins to keep others out that it does: if this server leads, and when what was told before is.
    pub(super) fn tell_that_others_are_excluded(&mut self, asked: &Asked, turn: &mut Turn<'_>) {
        let done = || Done { reply: Some((asked, Answer::Granted)), ..Done::default() };
        if !self.is_replicated() {
            return self.tell_when(Durability::Written, done(), turn);
        }
        if self.tell_as_leader(done(), turn).is_err() {
            self.reply(asked.client, asked.number, Answer::Elsewhere, turn);
        }
    }

    /// Tells a client that nobody else keeps it out.
    pub(super) fn grant(&mut self, asked: &Asked, turn: &mut Turn<'_>) {
        self.reply(asked.client, asked.number, Answer::Granted, turn);
    }

    /// Whether a client is answered as soon as that may be told.
    pub(super) fn is_about_to_be_told(&self, client: NodeId, number: u64) -> bool {
        let mut replies = self.waiting.iter().filter_map(|waiting| waiting.reply.as_ref());
        replies.any(|(to, asked, _)| (*to, *asked) == (client, number))
    }

    /// The first commit that may yet be lost.
    pub(super) fn first_unsure(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|waiting| waiting.reach).filter(|reach| *reach > Timestamp(0)).min()
    }

    /// Tells what no longer has to wait.
    pub(in super::super) fn release(&mut self, turn: &mut Turn<'_>) {
        if let Some(error) = self.database.storage().unsynced() {
            return self.lose(error, turn);
        }
        let mut written = Vec::new();
        while let Some(first) = self.waiting.front()
            && first.until <= self.ledger.durable(turn)
            && first.reach <= turn.known.clock.reached()
            && let Some(due) = self.waiting.pop_front()
        {
            self.shown -= due.shown;
            self.database.publish(due.reach);
            if let Some((client, number, answer)) = due.reply {
                self.reply(client, number, answer, turn);
            }
            due.sends.into_iter().for_each(|(server, message)| turn.send(server, message));
            written.extend(due.written);
        }
        if !written.is_empty() {
            written.sort_unstable();
            written.dedup();
            self.keep_structure(&written, turn);
        }
    }

    /// A snapshot that was opened for a question, and of which the client is not told.
    pub(super) fn close_untold(&mut self, client: NodeId, number: u64, turn: &mut Turn<'_>) {
        if let Some(at) = turn.known.snapshots.close_untold(client, number) {
            self.end_snapshot(client, at);
        }
    }

    /// Another serves the shard, or is about to: who waits for an answer is to ask there.
    pub(in super::super) fn redirect(&mut self, turn: &mut Turn<'_>) {
        let waiting = self.take_waiting();
        let deferred = self.deferred.extract(|_| true);
        let replies = waiting.iter().filter_map(|waiting| waiting.reply.as_ref());
        let told = replies.map(|(client, number, _)| (*client, *number));
        let blocked = deferred.iter().map(|asked| (asked.client, asked.number));
        for (client, number) in told.chain(blocked) {
            self.close_untold(client, number, turn);
            turn.answer(client, number, AtOnce::Elsewhere);
        }
    }

    /// The disk has failed, and may not hold what waits for it.
    fn lose(&mut self, error: Error, turn: &mut Turn<'_>) {
        let failed = Answer::Failed(turn.failed(error.of_unknown_outcome()));
        for lost in self.take_waiting() {
            if lost.reach > Timestamp(0) {
                self.doubt(lost.reach, !lost.sends.is_empty());
            }
            match lost.reply {
                Some((client, number, Answer::At(_) | Answer::Granted)) => {
                    self.reply(client, number, failed.clone(), turn);
                }
                // Who reads asks again, and sees what was there before.
                Some((client, number, Answer::Opened(..))) => self.close_untold(client, number, turn),
                _ => {}
            }
        }
    }

    fn take_waiting(&mut self) -> VecDeque<Waiting> {
        self.shown = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Nothing but what may be told is to come here.
    fn reply(&mut self, client: NodeId, number: u64, answer: Answer, turn: &mut Turn<'_>) {
        // What was read can be read again, and may be large.
        if let Some((last, given)) = self.last.get_mut(&client)
            && *last == number
            && !matches!(answer, Answer::Found(_) | Answer::Opened(..))
        {
            *given = Some(answer.clone());
        }
        if matches!(answer, Answer::Opened(..)) {
            turn.known.snapshots.tell(client, number);
        }
        turn.send(client, Message::Answer { number, answer });
    }
}
