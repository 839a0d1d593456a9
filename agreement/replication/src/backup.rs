//! A backup: follows the leader of its view.
//!
//! *Known as:* a follower, an acceptor.

use crate::Record;
use crate::replica::{MOST_WAITING, MOST_WAITING_BYTES};
use crate::{Entry, Log, Message, Protocol, Replica, SequenceNumber, StateMachine, Summary, View};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many times its patience a replica waits for a leader that was slow of late.
const MOST_PATIENCE: u32 = 3;

impl<S: StateMachine> Replica<S> {
    /// Whether `from` is the leader of the view that this replica is in: then it was heard of.
    fn follows(&mut self, from: NodeId, view: View, now: Time, out: &mut Outbox<Self>) -> bool {
        if view < self.view || self.group.leader(view) != from || from == self.me.node {
            return false;
        }
        if view == self.view && self.is_in_view() {
            self.trust(now);
            let gap = now.since(self.heard_leader);
            // Who was cut off for longer has not learned that the leader is slow.
            if gap <= self.options.patience * MOST_PATIENCE {
                self.gap = self.gap.max(gap);
            }
            (self.heard_leader, self.has_heard_leader) = (now, true);
            self.wait(self.patience(), now, out);
            return true;
        }
        self.wait(self.options.patience, now, out);
        // The view has begun without it.
        self.ask_state(from, view, now, out);
        false
    }

    /// How long it waits for a sign of the leader: longer, where that or this replica or the network between them is slow.
    pub(crate) fn patience(&self) -> Duration {
        let patience = self.options.patience;
        (self.gap * 2).clamp(patience, patience * MOST_PATIENCE)
    }

    /// Takes over the places that the leader has given.
    pub(crate) fn prepare(
        &mut self,
        from: NodeId,
        view: View,
        (first, before, entries): (SequenceNumber, Summary, Vec<Entry>),
        committed: SequenceNumber,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.follows(from, view, now, out) {
            return;
        }
        let mut part = Log::after(SequenceNumber(first.0 - 1), before);
        for entry in entries {
            part.append(entry);
        }
        let bytes = |part: &Log| part.entries_after(part.start()).map(Entry::size).sum::<usize>();
        let has_room = |early: &BTreeMap<SequenceNumber, (Log, SequenceNumber)>| {
            early.len() < MOST_WAITING
                && early.values().map(|(part, _)| bytes(part)).sum::<usize>() < MOST_WAITING_BYTES
        };
        if part.start() > self.log.last() && has_room(&self.early) {
            // It has overtaken what is to come before.
            self.early.insert(part.start(), (part, committed));
            return;
        }
        let mut next = Some((part, committed));
        while let Some((part, committed)) = next {
            if self.is_other(&part) {
                return self.leave_for(view.after(1), now, out);
            }
            if self.follow_order(&part, out) {
                self.commit(committed.min(part.last()), now, out);
            } else if part.last() > self.committed {
                self.ask_state(from, view, now, out);
            }
            let last = self.log.last();
            next = self.early.first_entry().filter(|early| *early.key() <= last).map(|early| early.remove());
        }
        self.execute_speculatively();
        self.promise_log(now, out);
    }

    /// Makes its log what the leader says it is up to the end of `part`, if it can be told that it is the same before; what it has
    /// found otherwise comes after that.
    pub(crate) fn follow_order(&mut self, part: &Log, out: &mut Outbox<Self>) -> bool {
        let from = part.start().max(self.committed);
        let Some(agreed) = self.log.agrees_until(part, from) else { return false };
        let others = if agreed < part.last() { self.replace(agreed, part, out) } else { Vec::new() };
        if self.group.protocol() != Protocol::Viewstamped && self.ordered < part.last() {
            self.ordered = part.last();
            self.record(Record::Ordered(self.ordered), out);
        }
        if !self.log.is_closed() {
            for (entry, by) in others {
                self.append(entry, by, out);
            }
        }
        true
    }

    /// Replaces what its log has after `agreed` by what `log` has; answers what was there and is not in `log`, and who had asked
    /// for it.
    pub(crate) fn replace(
        &mut self,
        agreed: SequenceNumber,
        log: &Log,
        out: &mut Outbox<Self>,
    ) -> Vec<(Entry, Option<NodeId>)> {
        if agreed < self.log.last() {
            self.record(Record::Truncate(agreed), out);
        }
        let entries = log.entries_after(agreed).cloned().map(Record::Append);
        entries.for_each(|record| self.record(record, out));
        self.exchange(agreed, log)
    }

    /// As [`Self::replace`], where the records are the caller's.
    pub(crate) fn exchange(&mut self, agreed: SequenceNumber, log: &Log) -> Vec<(Entry, Option<NodeId>)> {
        let mut others = self.cut(agreed);
        for entry in log.entries_after(agreed) {
            let known = others.iter().position(|(other, _)| other == entry);
            let by = known.and_then(|place| others.remove(place).1);
            self.put(entry.clone(), by);
        }
        others
    }

    /// The leader is there, and has committed up to here.
    pub(crate) fn hear_leader(
        &mut self,
        from: NodeId,
        view: View,
        (committed, summary): (SequenceNumber, Summary),
        round: u64,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.follows(from, view, now, out) {
            return;
        }
        self.round = self.round.max(round);
        self.gap -= self.gap / 64;
        match self.log.summary(committed) {
            Some(own) if own == summary => self.commit(committed, now, out),
            // It is committed already.
            None if committed < self.log.start() => {}
            Some(_) if self.group.protocol() == Protocol::Speculative && !self.may_impose() => {
                return self.leave_for(view.after(1), now, out);
            }
            _ => self.ask_state(from, view, now, out),
        }
        self.confirm(out);
    }

    /// Tells the leader what it holds.
    pub(crate) fn confirm(&self, out: &mut Outbox<Self>) {
        let (view, upto, round) = (self.view, self.stable, self.round);
        let ordered = self.stable_ordered;
        let message = match self.log.summary(upto).filter(|_| self.is_sure) {
            Some(summary) => {
                Message::PrepareOk { view, ordered, upto, summary, received: self.ordered(), round }
            }
            None => Message::Alive { view },
        };
        if self.is_in_view() && !self.leads() {
            out.send(self.group.leader(view), message);
        }
    }
}
