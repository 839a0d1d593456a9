//! From one replica to another that has missed something: the log of a view that goes on, or a state that will not change.

use crate::Record;
#[cfg(test)]
use crate::group::Defect;
use crate::replica::Event;
use crate::{Checkpoint, Log, Message, Protocol, Replica, SequenceNumber, StateMachine, Summary, View};
use fulmar_node::{NodeId, Outbox, Time};
use std::sync::Arc;

impl<S: StateMachine> Replica<S> {
    /// Asks for what it has missed of a view, but not for each message that says so.
    pub(crate) fn ask_state(&mut self, from: NodeId, view: View, now: Time, out: &mut Outbox<Self>) {
        if now >= self.asked_state_until {
            self.asked_state_until = now + self.options.heartbeat;
            self.ask_next_part(from, view, out);
        }
    }

    /// One part is asked for when the one before has come.
    pub(crate) fn ask_next_part(&self, from: NodeId, view: View, out: &mut Outbox<Self>) {
        let (committed, after) = (self.committed, self.has_until(view));
        out.send(from, Message::GetState { view, committed, after });
    }

    /// Gives another what it has not, after what it has committed: the view that this replica leads, or its last checkpoint.
    pub(crate) fn give_state(
        &self,
        to: NodeId,
        view: View,
        (committed, after): (SequenceNumber, SequenceNumber),
        out: &mut Outbox<Self>,
    ) {
        let checkpoint = (self.log.start() > committed).then(|| self.checkpoint.clone());
        let after = checkpoint.as_ref().map_or(after, |checkpoint| checkpoint.at);
        if self.leads() && self.is_sure && self.view >= view {
            out.send(to, self.start_of_view(checkpoint, after));
        } else if let Some(checkpoint) = checkpoint {
            if !self.is_copying() {
                out.send(to, Message::State(checkpoint));
            }
        } else {
            self.send_log_again(to, view, after, out);
        }
    }

    /// Up to where it has what it asks for of this view.
    fn has_until(&self, view: View) -> SequenceNumber {
        match &self.incoming {
            Some((of, log)) if *of == view && (log.start()..=log.last()).contains(&self.committed) => {
                log.last()
            }
            // All of it is the leader's.
            _ if view == self.view
                && self.is_in_view()
                && (self.group.protocol() == Protocol::Viewstamped || self.is_copying()) =>
            {
                self.log.last()
            }
            _ => self.committed,
        }
    }

    /// The log of the view that it leads, after a place, as far as there is room.
    pub(crate) fn start_of_view(
        &self,
        checkpoint: Option<Arc<Checkpoint>>,
        after: SequenceNumber,
    ) -> Message {
        let log = self.log.part(after, self.part_bytes());
        let last = self.leading.began_with.max(self.log.start());
        let end = (last, self.log.summary(last).unwrap_or_default());
        Message::StartView { view: self.view, checkpoint, log, end, committed: self.committed }
    }

    pub(crate) fn part_bytes(&self) -> usize {
        #[cfg(test)]
        if self.group.has(Defect::SendsWholeLogs) {
            return usize::MAX;
        }
        self.options.bytes
    }

    /// The log with what comes before it, after what this replica has committed, if it has that itself: it need not know that it is
    /// committed, and who copies a state gives none.
    pub(crate) fn reaching_back(&self, log: Log) -> Log {
        let mut own = self.log.part(self.committed, usize::MAX);
        if log.start() > self.committed && own.go_on_with(&log) { own } else { log }
    }

    /// Puts together the log of a view that has begun; asks for what has not come.
    pub(crate) fn assemble(
        &mut self,
        from: NodeId,
        view: View,
        part: Log,
        (end, summary): (SequenceNumber, Summary),
        now: Time,
        out: &mut Outbox<Self>,
    ) -> Option<Log> {
        let mut log = part;
        if self.log.summary(end) == Some(summary) && end >= self.committed && log.last() < end {
            // It has all of it.
            log = self.log.part(self.committed, usize::MAX);
            log.truncate(end);
            return Some(log);
        }
        log = self.reaching_back(log);
        let mut is_next = true;
        if let Some((of, mut before)) = self.incoming.take()
            && of == view
            && (before.start()..=before.last()).contains(&self.committed)
        {
            // A part that came before, or comes too early, leaves what has come.
            is_next = log.last() > before.last() && before.go_on_with(&log);
            log = before;
        }
        if log.start() <= self.committed && log.last() >= end.max(self.committed) {
            return Some(log);
        }
        self.incoming = Some((view, log));
        if is_next {
            self.ask_next_part(from, view, out);
        } else {
            self.ask_state(from, view, now, out);
        }
        None
    }

    /// What another knows to be committed is here.
    pub(crate) fn take_state(
        &mut self,
        from: NodeId,
        checkpoint: &Arc<Checkpoint>,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        self.adopt(from, checkpoint, now, out);
        self.begin(now, out);
    }

    /// Whether something is to be learned from a checkpoint.
    pub(crate) fn is_ahead(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.at > self.committed && checkpoint.group.epoch() >= self.group.epoch()
    }

    /// Goes on from another's checkpoint, if it is ahead and comes with the state.
    pub(crate) fn adopt(
        &mut self,
        from: NodeId,
        checkpoint: &Arc<Checkpoint>,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.is_ahead(checkpoint) {
            return;
        }
        if self.log.summary(checkpoint.at) == Some(checkpoint.summary) {
            self.commit(checkpoint.at, now, out);
        } else if self.execution.restore(checkpoint) {
            if self.options.is_copied {
                self.copy(from, checkpoint.at, out);
            }
            self.go_on_from(checkpoint, now, out);
        }
    }

    /// Goes on from a checkpoint that is ahead, whose state it has taken over, and that its own log does not lead to: so what that has
    /// after it was never committed.
    fn go_on_from(&mut self, checkpoint: &Arc<Checkpoint>, now: Time, out: &mut Outbox<Self>) {
        let begins_epoch = self.is_behind_epoch(checkpoint.group.epoch());
        let has_led = self.leads();
        self.log = Log::after(checkpoint.at, checkpoint.summary);
        self.asked.clear();
        self.uncommitted = 0;
        self.committed = checkpoint.at;
        self.checkpoint = checkpoint.clone();
        self.record(Record::Adopt(checkpoint.clone()), out);
        let last = SequenceNumber(0);
        #[cfg(test)]
        let last = if self.group.has(Defect::KeepsPromises) { SequenceNumber(u64::MAX) } else { last };
        self.take_back(last);
        if begins_epoch {
            self.begin_epoch(now, out);
        } else if has_led {
            // The leader of a later view has committed what this one has not.
            self.leave_for(self.view.after(1), now, out);
        } else if self.is_in_view() {
            self.promise_log(now, out);
        }
    }

    /// Whether its state lacks something of what comes before its log, which is copied: then it follows, and carries out what is
    /// committed, over a state that is newer in part; but it promises nothing of its log, and begins no view. Those who did, f + 1, have
    /// all that it lacks.
    pub const fn is_copying(&self) -> bool {
        self.copied.is_some()
    }

    /// What its state lacks is to be copied, from `from`.
    fn copy(&mut self, from: NodeId, at: SequenceNumber, out: &mut Outbox<Self>) {
        self.copied = Some(at);
        self.promise_no_log();
        self.record(Record::Copying(true), out);
        out.event(Event::Behind(from));
    }

    /// The same, again, if that was not over when it ended.
    pub(crate) fn copy_on(&self, out: &mut Outbox<Self>) {
        if self.is_copying()
            && let Some(other) = self.group.others(self.me).next()
        {
            out.event(Event::Behind(other));
        }
    }

    /// A part of its state has been copied.
    pub(crate) fn take_copied(
        &mut self,
        upto: SequenceNumber,
        is_whole: bool,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.is_copying() {
            return;
        }
        self.copied = self.copied.max(Some(upto)).filter(|_| !is_whole);
        if is_whole {
            self.record(Record::Copying(false), out);
            if self.is_in_view() {
                self.promise_log(now, out);
            }
            self.begin(now, out);
        }
    }
}
