//! A leader: what is committed in its view, and who still follows.
//!
//! A query takes no place in the log: the leader notes how far it has committed, makes sure that it still leads, by an answer
//! of f others to a question asked after the query came, and answers from the state at that point or later.
//!
//! *Known as:* the primary; its queries are what others call read index.

#[cfg(test)]
use crate::group::Defect;
use crate::replica::MOST_WAITING_BYTES;
use crate::{Entry, Message, Protocol, Replica, SequenceNumber, StateMachine, Summary, Timer, View};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A leader keeps no more queries in mind, and no more of what one backup holds beyond its own log.
const MOST_REMEMBERED: usize = 1 << 16;

/// What a leader knows of its view.
#[derive(Default)]
pub(crate) struct Leading {
    /// The end of the log with which the view began.
    pub(crate) began_with: SequenceNumber,
    /// So far had all committed with whose logs the view began.
    pub(crate) shared: SequenceNumber,
    /// Up to where it has sent operations with their places, and how far its log was when it gave its last sign.
    pub(crate) sent: SequenceNumber,
    pub(crate) sent_before: SequenceNumber,
    /// How far its log was when it last asked, under Speculative Paxos, whether all are in the same state (section 4.2.3).
    pub(crate) synchronized: SequenceNumber,
    /// The ends of the messages of operations that are on their way.
    pub(crate) underway: VecDeque<SequenceNumber>,
    backups: BTreeMap<NodeId, Backup>,
    /// How often it has given a sign, or asked whether it still leads.
    round: u64,
    queries: VecDeque<Query>,
    /// So many bytes they have.
    query_bytes: usize,
    /// Whether f + 1 hold the log with which the view began: then what came of its epoch before is safe with this group.
    pub(crate) is_established: bool,
    /// For how many signs in a row there was something to be committed that another view may commit.
    pub(crate) stalled: u32,
    /// Up to here a superquorum has the same log.
    pub(crate) found: SequenceNumber,
    /// Whether a superquorum was missing at the last sign: then what comes gets its place from the leader at once.
    pub(crate) imposes: bool,
    /// If it hears too few others to lead: since when one must have been heard of to count.
    pub(crate) unheard_since: Option<Time>,
    /// It leads since then.
    since: Time,
}

/// What a backup has said.
#[derive(Clone, Default)]
struct Backup {
    /// Up to here it has its places from the leader.
    ordered: SequenceNumber,
    /// Up to here its log is the leader's.
    same: SequenceNumber,
    /// Up to here it has said last that it has operations from the leader, on its disk or not.
    received: SequenceNumber,
    /// What it holds beyond the end of the leader's log.
    ahead: VecDeque<(SequenceNumber, Summary)>,
    /// The last of the leader's questions that it has answered.
    round: u64,
    /// When it was heard of.
    heard: Time,
    /// Up to here it had been sent operations before the sign of this round.
    probe: (SequenceNumber, u64),
}

/// Something to be answered when a round is over.
struct Query {
    round: u64,
    /// It must see all up to here.
    from: SequenceNumber,
    by: NodeId,
    entry: Entry,
}

impl Leading {
    /// Whether a backup has said that it holds the log up to here.
    pub(crate) fn holds(&self, backup: NodeId, upto: SequenceNumber) -> bool {
        self.backups.get(&backup).is_some_and(|backup| backup.ordered.max(backup.same) >= upto)
    }

    /// Of the backups that have said that they hold the log up to here, the one that was heard of last.
    pub(crate) fn nearest(&self, upto: SequenceNumber) -> Option<NodeId> {
        let holders = self.backups.iter().filter(|(backup, _)| self.holds(**backup, upto));
        holders.max_by_key(|(_, backup)| backup.heard).map(|(backup, _)| *backup)
    }

    pub(crate) fn after(last: SequenceNumber, since: Time) -> Self {
        Self { began_with: last, sent: last, synchronized: last, since, ..Self::default() }
    }

    /// How many others were heard of since, or might yet have been.
    fn heard_since(&self, time: Time) -> usize {
        let heard = self.backups.values().filter(|backup| backup.heard >= time).count();
        if self.since >= time { usize::MAX } else { heard }
    }

    /// Whether this backup was heard of since.
    pub(crate) fn has_heard(&self, backup: NodeId, since: Time) -> bool {
        self.backups.get(&backup).is_some_and(|backup| backup.heard >= since)
    }
}

/// The most that so many of these have reached.
fn reached_by<T: Ord + Copy>(count: usize, values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.get(count.checked_sub(1)?).copied()
}

impl<S: StateMachine> Replica<S> {
    /// What it holds of its view's log is stable now.
    pub(crate) fn begin_leading(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.leading.sent = match self.group.protocol() {
            Protocol::Viewstamped => self.log.last(),
            // Where operations stand in the log with which the view begins was found as well.
            Protocol::Fast | Protocol::Speculative => self.committed,
        };
        self.sign_due = now;
        for backup in self.group.others(self.me) {
            out.send(backup, self.start_of_view(None, self.leading.shared));
        }
        self.give_sign(now, out);
        self.answer_queries(out);
    }

    /// A backup holds this.
    pub(crate) fn prepared(
        &mut self,
        from: NodeId,
        view: View,
        (ordered, upto, summary): (SequenceNumber, SequenceNumber, Summary),
        (received, round): (SequenceNumber, u64),
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if !self.leads() || view != self.view || from == self.me.node {
            return;
        }
        self.hear_backup(from, view, now);
        let backup = self.leading.backups.entry(from).or_default();
        backup.ordered = backup.ordered.max(ordered);
        backup.round = backup.round.max(round);
        // Who has crashed since has less than it had.
        backup.received = received;
        // What is said again is not remembered again: the leader may never come to it.
        if backup.ahead.back() != Some(&(upto, summary)) {
            if backup.ahead.len() == MOST_REMEMBERED {
                backup.ahead.pop_front();
            }
            backup.ahead.push_back((upto, summary));
        }
        self.compare(now, out);
        if self.leads() {
            self.advance(now, out);
            self.answer_queries(out);
        }
    }

    /// A member of its view is there.
    pub(crate) fn hear_backup(&mut self, from: NodeId, view: View, now: Time) {
        if self.leads() && view == self.view {
            self.leading.backups.entry(from).or_default().heard = now;
        }
    }

    /// Compares its log with what the backups hold, as far as it has come.
    pub(crate) fn compare(&mut self, now: Time, out: &mut Outbox<Self>) {
        let mut differs = None;
        for backup in self.leading.backups.values_mut() {
            while let Some((upto, summary)) = backup.ahead.pop_front_if(|(upto, _)| *upto <= self.log.last())
            {
                match self.log.summary(upto) {
                    Some(own) if own == summary => backup.same = backup.same.max(upto),
                    Some(_) => differs = differs.max(Some(upto)),
                    // Before the log's start: long committed.
                    None => {}
                }
            }
        }
        // A backup has other operations than the leader where both have some, and no place was sent that will tell.
        if differs > Some(self.leading.sent) && self.group.protocol() != Protocol::Viewstamped {
            if self.may_impose() {
                self.impose(now, out);
            } else {
                self.leave_for(self.view.after(1), now, out);
            }
        }
    }

    /// Commits what f + 1 hold in places that the leader has given, or a superquorum in those where it came.
    pub(crate) fn advance(&mut self, now: Time, out: &mut Outbox<Self>) {
        if self.log.last() > self.committed {
            self.plan_sign(self.options.heartbeat, now, out);
        }
        let ordered = self.leading.backups.values().map(|backup| backup.ordered);
        let given = reached_by(self.commit_quorum(), ordered.chain([self.stable_ordered]));
        let found = self.held_alike(self.group.superquorum());
        self.leading.is_established |= given >= Some(self.leading.began_with);
        self.leading.found = self.leading.found.max(found.unwrap_or_default());
        self.leading.imposes &= self.leading.found < self.leading.sent_before;
        let upto = given.unwrap_or_default().max(self.leading.found);
        if upto > self.committed {
            self.leading.stalled = 0;
            self.commit(upto, now, out);
            self.send_prepares(out);
        }
    }

    /// So many must hold what has its place from the leader.
    fn commit_quorum(&self) -> usize {
        #[cfg(test)]
        if self.group.has(Defect::RepliesBeforeQuorum) {
            return self.group.failures();
        }
        self.group.quorum()
    }

    pub(crate) fn query(&mut self, from: NodeId, entry: Entry, out: &mut Outbox<Self>) {
        if !self.leads() {
            return;
        }
        let index = self.committed.max(self.leading.began_with);
        #[cfg(test)]
        let index = if self.group.has(Defect::AnswersEarly) { SequenceNumber(0) } else { index };
        let queries = &self.leading.queries;
        if queries.len() >= MOST_REMEMBERED || self.leading.query_bytes >= MOST_WAITING_BYTES {
            // Its client asks again.
            return;
        }
        let is_idle = queries.is_empty();
        let round = self.leading.round + 1;
        self.leading.query_bytes += entry.operation.len();
        self.leading.queries.push_back(Query { round, from: index, by: from, entry });
        if is_idle {
            self.ask_round(out);
        }
        self.answer_queries(out);
    }

    /// Asks the backups whether they still follow.
    fn ask_round(&mut self, out: &mut Outbox<Self>) {
        if self.is_sure {
            self.leading.round += 1;
            self.tell_backups(out);
        }
    }

    /// Tells the backups that the leader is there, and how far; not before it is sure to lead.
    pub(crate) fn tell_backups(&self, out: &mut Outbox<Self>) {
        if !self.is_sure {
            return;
        }
        let (view, committed, round) = (self.view, self.committed, self.leading.round);
        let Some(summary) = self.log.summary(committed) else { return };
        let backups = self.group.others(self.me);
        backups.for_each(|backup| out.send(backup, Message::Commit { view, committed, summary, round }));
    }

    /// Answers the queries whose round is over; those that have come since have the next.
    pub(crate) fn answer_queries(&mut self, out: &mut Outbox<Self>) {
        let rounds = self.leading.backups.values().map(|backup| backup.round).chain([self.leading.round]);
        let over = reached_by(self.group.quorum(), rounds).unwrap_or_default();
        #[cfg(test)]
        let over = if self.group.has(Defect::SkipsRound) { u64::MAX } else { over };
        let executed = self.execution.executed();
        while let Some(query) =
            self.leading.queries.pop_front_if(|query| query.round <= over && query.from <= executed)
        {
            let Entry { client, number, operation, .. } = query.entry;
            self.leading.query_bytes -= operation.len();
            let result = self.execution.state_machine().query(&operation);
            out.send(query.by, Message::Reply { view: self.view, client, number, result });
        }
        let next = self.leading.queries.back().is_some_and(|query| query.round > self.leading.round);
        if next && over >= self.leading.round {
            self.ask_round(out);
        }
    }

    /// Tells the backups that the leader is there, half as often while nothing is to be committed; and sees to what has not been committed since
    /// its last sign.
    pub(crate) fn give_sign(&mut self, now: Time, out: &mut Outbox<Self>) {
        if !self.leads() || !self.is_sure || now < self.sign_due {
            return;
        }
        let last = self.log.last();
        let is_idle = self.committed == last && self.leading.sent_before == last;
        self.sign_due = Time::MAX;
        self.plan_sign(self.options.heartbeat * if is_idle { 2 } else { 1 }, now, out);
        let unheard = now.since(self.leading.since).saturating_sub(self.options.patience);
        let lately = self.leading.since + unheard;
        let is_unheard = self.leading.heard_since(lately) < self.group.failures();
        self.leading.unheard_since = is_unheard.then_some(lately);
        if is_unheard {
            // Nobody is to wait for a leader that hears nobody.
            let view = self.view;
            return self.group.others(self.me).for_each(|other| out.send(other, Message::Suspect { view }));
        }
        self.leading.round += 1;
        self.tell_backups(out);
        let waits = self.leading.sent_before > self.committed;
        self.leading.stalled =
            if waits && self.would_reconciling_commit() { self.leading.stalled + 1 } else { 0 };
        match self.group.protocol() {
            Protocol::Viewstamped => self.send_again(out),
            Protocol::Fast | Protocol::Speculative if waits && self.may_impose() => {
                self.leading.imposes = true;
                self.send_again(out);
                self.impose(now, out);
            }
            Protocol::Speculative
                if self.leading.stalled * self.options.heartbeat >= self.options.patience =>
            {
                self.leave_for(self.view.after(1), now, out);
            }
            Protocol::Fast | Protocol::Speculative => {}
        }
        self.leading.sent_before = self.log.last();
    }

    /// The next sign is given at such an interval's end at the latest: when the leaders of other groups give theirs, as one message carries the
    /// signs of all groups that two nodes share.
    fn plan_sign(&mut self, interval: Duration, now: Time, out: &mut Outbox<Self>) {
        let due = now.next_multiple_of(interval);
        if due < self.sign_due {
            self.sign_due = due;
            out.set_timer(Timer::Heartbeat, due);
        }
    }

    /// Whether it leads, and f + 1 hold what is not committed, as no superquorum does and no leader may give it its place: if none is
    /// there, it takes another view, or another protocol (Speculative Paxos, section 4.2.5). What f + 1 do not hold yet, as their disks
    /// are slow, no other would commit either.
    pub fn lacks_superquorum(&self) -> bool {
        if self.may_impose() || !self.leads() {
            return false;
        }
        self.held_alike(self.group.quorum()) > Some(self.committed)
    }

    /// Up to where so many hold the log of the leader, itself among them.
    fn held_alike(&self, count: usize) -> Option<SequenceNumber> {
        let same = self.leading.backups.values().map(|backup| backup.same);
        reached_by(count, same.chain([self.stable]))
    }

    /// Whether a view change may commit more than the leader does: what f + 1 hold, or what it has missed and another holds.
    fn would_reconciling_commit(&self) -> bool {
        #[cfg(test)]
        if self.group.has(Defect::Hasty) {
            return true;
        }
        self.lacks_superquorum() || self.leading.backups.values().any(|backup| !backup.ahead.is_empty())
    }

    /// Sends each backup once more what it has not, though it has heard a sign that was given later: it may be lost. What may still be on its
    /// way, or is not read, is not sent again, and gets nothing behind it.
    fn send_again(&mut self, out: &mut Outbox<Self>) {
        let (sent, round, start) = (self.leading.sent, self.leading.round, self.log.start());
        for node in self.group.others(self.me) {
            let backup = self.leading.backups.entry(node).or_default();
            let (sent_before, sign) = backup.probe;
            let is_answered = backup.round >= sign;
            #[cfg(test)]
            let is_answered = is_answered || self.group.has(Defect::SendsAgainAtOnce);
            if !is_answered {
                continue;
            }
            let held = backup.ordered.max(backup.received);
            let is_lost = held < sent_before && held >= start;
            backup.probe = (sent, if is_lost { round + 1 } else { round });
            if is_lost {
                self.send_prepare(held.next(), Some(node), self.options.batch, out);
            }
        }
    }

    /// Sends so many operations at most from a place on, to one backup or all; answers the place of the last.
    pub(crate) fn send_prepare(
        &self,
        from: SequenceNumber,
        to: Option<NodeId>,
        most: usize,
        out: &mut Outbox<Self>,
    ) -> SequenceNumber {
        let before = SequenceNumber(from.0 - 1);
        let Some(summary) = self.log.summary(before) else { return before };
        let (mut size, bytes) = (0, self.part_bytes());
        let fits = |entry: &&Entry| {
            let is_first = size == 0;
            size += entry.size();
            is_first || size <= bytes
        };
        let entries = self.log.entries_after(before).take(most).take_while(fits);
        let entries: Vec<Entry> = entries.cloned().collect();
        let last = SequenceNumber(before.0 + entries.len() as u64);
        let (view, committed) = (self.view, self.committed);
        let message = Message::Prepare { view, from, before: summary, entries, committed };
        let backups = self.group.others(self.me).filter(|backup| to.is_none_or(|to| to == *backup));
        backups.for_each(|backup| out.send(backup, message.clone()));
        last
    }

    /// What it holds of a view's log is stable: as a leader, it counts itself; as a backup, it says so.
    pub(crate) fn hold_log(
        &mut self,
        view: View,
        (upto, ordered): (SequenceNumber, SequenceNumber),
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if view != self.view || !self.is_in_view() {
            return;
        }
        let before = self.stable;
        self.stable = self.stable.max(upto);
        let is_ordered = ordered > self.stable_ordered.max(self.committed);
        self.stable_ordered = self.stable_ordered.max(ordered);
        let enters = !std::mem::replace(&mut self.is_sure, true);
        if self.group.protocol() == Protocol::Speculative {
            self.reply_since(before, out);
        }
        if self.leads() {
            if enters {
                self.begin_leading(now, out);
            }
            self.compare(now, out);
            if self.leads() {
                self.advance(now, out);
            }
        } else if enters || self.group.protocol() != Protocol::Speculative || is_ordered {
            self.confirm(out);
        }
        if enters {
            self.hear_waiting(now, out);
        }
    }
}
