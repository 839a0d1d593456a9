//! The normal case of viewstamped replication (Liskov and Cowling 2012, section 4.1): the leader appends what clients ask for to
//! its log and sends it to the backups; what f + 1 replicas hold is committed.
//!
//! Requests are batched as PBFT does (Castro and Liskov 1999, section 6.2): while few messages are on their way an operation is
//! sent at once, otherwise it waits for one of those to be committed, and goes with all that wait then.
//!
//! A query takes no place in the log: the leader notes how far it has committed, makes sure that it still leads, by an answer
//! of f others to a question asked after the query came, and answers from the state at that point or later.

use crate::replica::{Promise, Status};
use crate::{ClientId, Entry, Message, Operation, Replica, SequenceNumber, StateMachine, Timer, View};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::{BTreeMap, VecDeque};

/// What a leader knows of its view.
#[derive(Default)]
pub(crate) struct Leading {
    /// Whether it is sure to know, after a crash, that it has led this view; before, it says nothing.
    is_sure: bool,
    /// The end of the log with which the view began.
    began_with: SequenceNumber,
    /// Up to where operations were sent to the backups, by now and by its last sign.
    sent: SequenceNumber,
    sent_before: SequenceNumber,
    /// The ends of the messages that are on their way.
    underway: VecDeque<SequenceNumber>,
    /// Up to where each backup holds the log, and which question it has answered last.
    backups: BTreeMap<NodeId, (SequenceNumber, u64)>,
    /// How often it has asked whether it still leads.
    round: u64,
    queries: VecDeque<Query>,
}

/// Something to be answered when a round is over.
struct Query {
    round: u64,
    /// It must see all up to here.
    from: SequenceNumber,
    client: NodeId,
    number: u64,
    operation: Operation,
}

impl Leading {
    pub(crate) fn after(last: SequenceNumber) -> Self {
        Self { began_with: last, sent: last, ..Self::default() }
    }
}

/// The most that so many of these have reached; `values` are what each has.
fn reached_by<T: Ord + Copy>(count: usize, values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(count - 1).copied()
}

/// As a leader.
impl<S: StateMachine> Replica<S> {
    /// Gives a client's operation its place, or answers it if it was carried out before.
    pub(crate) fn order(&mut self, from: NodeId, entry: Entry, now: Time, out: &mut Outbox<Self>) {
        // Whoever is asked in vain is not asked alone the next time.
        if !self.leads() || self.answer_again(from, entry.client, entry.number, out) {
            return;
        }
        if let Some(asked) = self.asked.get_mut(&entry.client).filter(|asked| asked.number >= entry.number) {
            asked.by = Some(from);
            return;
        }
        self.append(entry, Some(from), out);
        self.send_prepares(out);
        self.promise(Promise::Log(self.view, self.log.last()), now, out);
    }

    /// Whether the client has gone on from this request, or is answered as it was before.
    fn answer_again(&self, from: NodeId, client: ClientId, number: u64, out: &mut Outbox<Self>) -> bool {
        let Some(last) = self.execution.answered(client).filter(|last| last.number >= number) else {
            return false;
        };
        if last.number == number {
            out.send(from, Message::Reply { view: self.view, number, result: last.result.clone() });
        }
        true
    }

    fn send_prepares(&mut self, out: &mut Outbox<Self>) {
        while self.leading.underway.pop_front_if(|end| *end <= self.committed).is_some() {}
        // A backup that has asked for its state may hold what was never sent otherwise.
        self.leading.sent = self.leading.sent.max(self.committed);
        while self.leading.is_sure
            && self.leading.underway.len() < self.options.window
            && self.leading.sent < self.log.last()
        {
            let from = self.leading.sent.next();
            self.leading.sent = self.send_prepare(from, None, out);
            self.leading.underway.push_back(self.leading.sent);
        }
    }

    /// Sends operations from a place on, to one backup or all; answers the place of the last.
    fn send_prepare(
        &self,
        from: SequenceNumber,
        to: Option<NodeId>,
        out: &mut Outbox<Self>,
    ) -> SequenceNumber {
        let entries: Vec<Entry> =
            self.log.from(from, self.options.batch).map(|(_, entry)| entry.clone()).collect();
        let last = SequenceNumber(from.0 + entries.len() as u64 - 1);
        let message = Message::Prepare { view: self.view, from, entries, committed: self.committed };
        let backups = self.group.others(self.me).filter(|backup| to.is_none_or(|to| to == *backup));
        backups.for_each(|backup| out.send(backup, message.clone()));
        last
    }

    /// A backup holds the log up to here.
    pub(crate) fn prepared(
        &mut self,
        from: NodeId,
        view: View,
        (upto, round): (SequenceNumber, u64),
        out: &mut Outbox<Self>,
    ) {
        if self.leads() && view == self.view {
            let (held, answered) = self.leading.backups.entry(from).or_default();
            (*held, *answered) = ((*held).max(upto), (*answered).max(round));
            self.advance(out);
            self.answer_queries(out);
        }
    }

    /// Commits what f + 1 hold, and sends what has waited for that.
    fn advance(&mut self, out: &mut Outbox<Self>) {
        let held = self.leading.backups.values().map(|(held, _)| *held).chain([self.stable]);
        if let Some(upto) = reached_by(self.commit_quorum(), held)
            && upto > self.committed
        {
            self.commit(upto, out);
            self.send_prepares(out);
        }
    }

    /// So many hold what is committed.
    fn commit_quorum(&self) -> usize {
        #[cfg(test)]
        if self.options.defect == Some(crate::replica::Defect::CommitsTooEarly) {
            return self.group.failures();
        }
        self.group.quorum()
    }

    pub(crate) fn query(&mut self, from: NodeId, number: u64, operation: Operation, out: &mut Outbox<Self>) {
        if !self.leads() {
            return;
        }
        let index = self.committed.max(self.leading.began_with);
        let is_idle = self.leading.queries.is_empty();
        let round = self.leading.round + 1;
        self.leading.queries.push_back(Query { round, from: index, client: from, number, operation });
        if is_idle {
            self.ask_round(out);
        }
        self.answer_queries(out);
    }

    /// Asks the backups whether they still follow.
    fn ask_round(&mut self, out: &mut Outbox<Self>) {
        if self.leading.is_sure {
            self.leading.round += 1;
            self.tell_backups(out);
        }
    }

    fn tell_backups(&self, out: &mut Outbox<Self>) {
        let (view, committed, round) = (self.view, self.committed, self.leading.round);
        self.group
            .others(self.me)
            .for_each(|backup| out.send(backup, Message::Commit { view, committed, round }));
    }

    /// Answers the queries whose round is over; those that have come since have the next.
    fn answer_queries(&mut self, out: &mut Outbox<Self>) {
        let rounds = self.leading.backups.values().map(|(_, round)| *round).chain([self.leading.round]);
        let over = reached_by(self.group.quorum(), rounds).unwrap_or_default();
        let executed = self.execution.executed();
        while let Some(query) =
            self.leading.queries.pop_front_if(|query| query.round <= over && query.from <= executed)
        {
            let result = self.execution.state_machine().query(&query.operation);
            out.send(query.client, Message::Reply { view: self.view, number: query.number, result });
        }
        let next = self.leading.queries.back().is_some_and(|query| query.round > self.leading.round);
        if next && over >= self.leading.round {
            self.ask_round(out);
        }
    }

    /// Tells the backups that the leader is there, and sends once more what some of them have not confirmed since its last sign.
    pub(crate) fn give_sign(&mut self, now: Time, out: &mut Outbox<Self>) {
        if !self.leads() || !self.leading.is_sure {
            return;
        }
        self.tell_backups(out);
        let lagging: Vec<_> = self
            .group
            .others(self.me)
            .map(|backup| (backup, self.leading.backups.get(&backup).map_or(SequenceNumber(0), |b| b.0)))
            .filter(|(_, held)| *held < self.leading.sent_before && *held >= self.log.start())
            .collect();
        for (backup, held) in lagging {
            self.send_prepare(held.next(), Some(backup), out);
        }
        self.leading.sent_before = self.leading.sent;
        out.set_timer(Timer::Heartbeat, now + self.options.heartbeat);
    }

    /// What it holds of a view's log is stable: as a leader, it counts itself; as a backup, it says so.
    pub(crate) fn hold_log(&mut self, view: View, upto: SequenceNumber, now: Time, out: &mut Outbox<Self>) {
        if view != self.view || self.status != Status::Normal {
            return;
        }
        self.stable = self.stable.max(upto);
        if !self.leads() {
            return self.confirm(out);
        }
        if !self.leading.is_sure {
            self.leading.is_sure = true;
            self.leading.sent = self.log.last();
            let log = &self.log;
            for backup in self.group.others(self.me) {
                let (log, committed) = (log.clone(), self.committed);
                out.send(backup, Message::StartView { view, checkpoint: None, log, committed });
            }
            self.give_sign(now, out);
            self.answer_queries(out);
        }
        self.advance(out);
    }
}

/// As a backup.
impl<S: StateMachine> Replica<S> {
    /// Whether `from` is the leader of the view that this replica is in: then it was heard of.
    fn follows(&mut self, from: NodeId, view: View, now: Time, out: &mut Outbox<Self>) -> bool {
        if view < self.view || self.group.leader(view) != from {
            return false;
        }
        out.set_timer(Timer::Patience, now + self.options.patience);
        if view == self.view && self.status == Status::Normal {
            return true;
        }
        // The view has begun without it.
        self.ask_state(from, view, now, out);
        false
    }

    /// Appends what the leader has given places.
    pub(crate) fn prepare(
        &mut self,
        from: NodeId,
        view: View,
        (first, entries): (SequenceNumber, Vec<Entry>),
        committed: SequenceNumber,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.follows(from, view, now, out) {
            return;
        }
        if first > self.log.last().next() {
            return self.ask_state(from, view, now, out);
        }
        let places = (first.0..).map(SequenceNumber);
        for (_, entry) in
            places.zip(entries).filter(|(place, _)| *place > self.log.last()).collect::<Vec<_>>()
        {
            self.append(entry, None, out);
        }
        self.commit(committed, out);
        self.promise(Promise::Log(view, self.log.last()), now, out);
    }

    /// The leader is there, and has committed up to here.
    pub(crate) fn hear_leader(
        &mut self,
        from: NodeId,
        view: View,
        (committed, round): (SequenceNumber, u64),
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.follows(from, view, now, out) {
            return;
        }
        if committed > self.log.last() {
            self.ask_state(from, view, now, out);
        }
        self.round = self.round.max(round);
        self.commit(committed, out);
        self.confirm(out);
    }

    fn confirm(&self, out: &mut Outbox<Self>) {
        let (view, upto, round) = (self.view, self.stable, self.round);
        out.send(self.group.leader(view), Message::PrepareOk { view, upto, round });
    }
}
