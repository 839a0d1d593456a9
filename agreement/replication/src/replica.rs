//! A replica: what its protocols have in common.

use crate::execution::Execution;
#[cfg(test)]
use crate::group::Defect;
use crate::leader::Leading;
use crate::view_change::Votes;
use crate::{
    Checkpoint, ClientId, Group, Log, Member, Memory, Message, Options, Protocol, Record, SequenceNumber,
    Standing, StateMachine, Timer, View,
};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// What a replica tells whoever runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has missed what the others no longer have in their logs: it goes on from a checkpoint, and its state is to be copied, from
    /// the beginning, from one that is not behind, such as this one. When it starts again meanwhile it says so again, and what was
    /// copied before still counts.
    Behind(NodeId),
    /// It takes part in this view of its group, in which it did not before; or again, after a restart.
    View(View),
}

/// What whoever runs a replica wants of it.
#[derive(Clone, Debug)]
pub enum Wish {
    /// That it counts on a part of the state that was copied, in place, from a replica that had committed all up to `upto`, which is
    /// no less than this one has; with the last part the state `is_whole`.
    Copied {
        /// Up to here that replica had committed.
        upto: SequenceNumber,
        /// Whether that was all.
        is_whole: bool,
    },
    /// That these members, under this protocol, go on as its group, if it leads that. As with [`crate::Invoke::Reconfigure`].
    Reconfigure(Vec<Member>, Protocol),
    /// That the member there leads, if it leads itself.
    Resign(NodeId),
}

/// Whether a replica takes part in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It does.
    Normal,
    /// The view has not begun, as far as it knows.
    ViewChange,
    /// It is no member of the group.
    Outside,
}

/// What a replica may say once its records so far are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// That it holds this view's log up to here, and as far as its second part in places from the leader.
    Log(View, (SequenceNumber, SequenceNumber)),
    /// That it has left all views before this one.
    View(View),
}

/// So many requests may wait for a view, and so many messages of a leader for the one before them.
pub(crate) const MOST_WAITING: usize = 1_000;
pub(crate) const MOST_WAITING_BYTES: usize = 64 << 20;

/// A request that is in the log and not committed, and whom to answer.
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) by: Option<NodeId>,
}

/// A member of a group.
///
/// Invariants, with `n` for any sequence number:
/// - `log.start() <= checkpoint.at <= committed`, and if it is in a view, `committed <= log.last()`;
/// - what is executed is committed, or in the log if it speculates;
/// - `committed <= executed`, but for what its log does not have yet;
/// - no replica ever commits two different operations at `n`;
/// - `last_normal <= view`, and they are equal if it is in a view.
pub struct Replica<S> {
    pub(crate) me: Member,
    pub(crate) group: Group,
    pub(crate) options: Options,
    pub(crate) status: Status,
    pub(crate) view: View,
    /// The view whose log it has.
    pub(crate) last_normal: View,
    pub(crate) log: Log,
    /// Nothing up to here will ever change.
    pub(crate) committed: SequenceNumber,
    pub(crate) execution: Execution<S>,
    pub(crate) checkpoint: Arc<Checkpoint>,
    /// While its state is copied: it commits no more than those had from whom the parts so far are.
    pub(crate) copied: Option<SequenceNumber>,
    /// So many bytes of operations were committed since.
    since_checkpoint: usize,
    /// So many bytes of operations are in the log and not committed.
    pub(crate) uncommitted: usize,
    /// What is in the log and not committed.
    pub(crate) asked: BTreeMap<ClientId, Asked>,
    /// Up to here the leader of `last_normal` has given the log's entries their places; kept only where not all have them so.
    pub(crate) ordered: SequenceNumber,
    /// It will not forget this view's log up to here, nor that its places up to the second are the leader's.
    pub(crate) stable: SequenceNumber,
    pub(crate) stable_ordered: SequenceNumber,
    /// Whether it is sure to know, after a crash, that it is in this view. Before, it says nothing in it.
    pub(crate) is_sure: bool,
    /// The last of the leader's questions whether it still leads.
    pub(crate) round: u64,
    /// As a leader.
    pub(crate) leading: Leading,
    /// While a view is to begin.
    pub(crate) votes: Votes,
    /// As one who is no member: which of those who are have begun their epoch.
    pub(crate) successors: BTreeSet<NodeId>,
    /// How many views in a row have not begun.
    pub(crate) failed_views: u32,
    /// What has come of the log of a view that has begun.
    pub(crate) incoming: Option<(View, Log)>,
    /// What came of the leader's places before what precedes it, by where it begins, with what was committed then.
    pub(crate) early: BTreeMap<SequenceNumber, (Log, SequenceNumber)>,
    /// What clients have asked for while a view was to begin, and from where.
    waiting: Vec<(NodeId, Message)>,
    /// Until then no state is asked for again.
    pub(crate) asked_state_until: Time,
    /// Until then no doubt is heard.
    pub(crate) doubted_until: Time,
    /// The last request that said that time has passed, and when it came.
    timed: Option<((ClientId, u64), Time)>,
    /// Whether it hears of no leader, and which others have said when that they do not.
    pub(crate) is_suspicious: bool,
    /// When it had a sign that there is a leader, or may be soon.
    pub(crate) trusted: Time,
    pub(crate) suspects: BTreeMap<NodeId, Time>,
    /// When it has heard the leader, and whether it has in this view; and the longest time that it has not of late.
    pub(crate) heard_leader: Time,
    pub(crate) has_heard_leader: bool,
    pub(crate) gap: Duration,
    /// Timers that expire earlier were meant for what has been since.
    pub(crate) patience_until: Time,
    pub(crate) sign_due: Time,
    promises: VecDeque<(Lsn, Promise)>,
    durable: Lsn,
    /// Whether it has had a life before.
    is_restarted: bool,
}

impl<S: StateMachine> Replica<S> {
    /// A replica as its records left it; `state_machine` is in the state before any operation, and `group` the one that was founded;
    /// or, if there are no records, a later one that is known.
    ///
    /// Without records it is a founder if `group` was founded with its incarnation, and else it has to be let in: it finds the
    /// state and the group there is now if one of the nodes of `group` still knows. So whoever has had a life before, and has
    /// lost its records, comes back with an incarnation that never was.
    ///
    /// # Panics
    /// If the last checkpoint of the records has a state that `state_machine` does not take over: see [`Checkpoint::is_of`].
    pub fn new(me: Member, group: Group, options: Options, state_machine: S, records: &[Record]) -> Self {
        let mut memory = Memory::default();
        records.iter().for_each(|record| memory.note(record));
        let Memory { mut standing, log, checkpoint, .. } = memory;
        if records.is_empty() {
            let first = View::first_of(group.epoch());
            (standing.view, standing.last_normal) = (first, first);
        }
        let Standing { view, last_normal, ordered, is_copying } = standing;
        let mut replica = Self {
            me,
            options,
            status: Status::Normal,
            view,
            last_normal,
            log,
            committed: SequenceNumber(0),
            execution: Execution::new(state_machine),
            checkpoint: Arc::new(Checkpoint::first(group.clone())),
            copied: None,
            group,
            since_checkpoint: 0,
            uncommitted: 0,
            asked: BTreeMap::new(),
            ordered,
            stable: SequenceNumber(0),
            stable_ordered: SequenceNumber(0),
            is_sure: false,
            round: 0,
            leading: Leading::default(),
            votes: Votes::default(),
            successors: BTreeSet::new(),
            failed_views: 0,
            incoming: None,
            early: BTreeMap::new(),
            waiting: Vec::new(),
            asked_state_until: Time::ZERO,
            doubted_until: Time::ZERO,
            timed: None,
            is_suspicious: false,
            trusted: Time::ZERO,
            suspects: BTreeMap::new(),
            heard_leader: Time::ZERO,
            has_heard_leader: false,
            gap: Duration::ZERO,
            patience_until: Time::ZERO,
            sign_due: Time::ZERO,
            promises: VecDeque::new(),
            durable: Lsn(records.len() as u64),
            is_restarted: !records.is_empty(),
        };
        #[cfg(test)]
        {
            replica.execution.defect = replica.group.defect;
        }
        if let Some(checkpoint) = checkpoint {
            replica.group = checkpoint.group.clone();
            replica.committed = checkpoint.at;
            let is_state = replica.execution.restore(&checkpoint);
            assert!(is_state, "a record of this replica has a state that it cannot have taken over");
            replica.checkpoint = checkpoint;
        }
        replica.uncommitted = replica.uncommitted_bytes();
        replica.copied = is_copying.then_some(replica.committed);
        if replica.last_normal < replica.view {
            replica.status = Status::ViewChange;
        }
        if replica.is_behind_epoch(replica.group.epoch()) || !replica.group.members().contains(&me) {
            replica.status = Status::Outside;
        }
        replica
    }

    /// The state machine, as far as operations are committed and executed.
    pub const fn state_machine(&self) -> &S {
        self.execution.state_machine()
    }

    /// The log, as far as it is kept.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Carries out all of `log`, its own or one that goes on from that: for who looks at what the replicas of a group have left that has
    /// ended, and knows that all of it was committed. Whether it goes on from its own.
    pub fn carry_out(&mut self, log: &Log) -> bool {
        let (last, summary) = self.log.end();
        if log.summary(last) != Some(summary) {
            return false;
        }
        while self.execution.executed() < log.last() {
            let next = self.execution.executed().next();
            let Some(entry) = self.log.get(next).or_else(|| log.get(next)) else { return false };
            self.execution.execute(entry);
        }
        self.execution.commit(log.last());
        true
    }

    /// The group that it knows.
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// Whether it leads, and all members of the group have said that they hold what is committed.
    pub fn is_complete(&self) -> bool {
        self.leads() && self.group.others(self.me).all(|backup| self.leading.holds(backup, self.committed))
    }

    /// The last checkpoint.
    pub const fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.checkpoint
    }

    /// The last operation that is committed, as far as this replica knows.
    pub const fn committed(&self) -> SequenceNumber {
        self.committed
    }

    /// The view that it is in, if it is in one.
    pub fn view(&self) -> Option<View> {
        self.is_in_view().then_some(self.view)
    }

    /// Whether it leads the view that it is in.
    pub fn leads(&self) -> bool {
        self.is_in_view() && self.is_leader_of(self.view)
    }

    /// Whether it leads those that it hears, or follows a leader that it hears.
    pub fn takes_part(&self) -> bool {
        let follows = self.has_heard_leader && !self.is_suspicious;
        self.is_in_view() && if self.leads() { self.leading.unheard_since.is_none() } else { follows }
    }

    /// If nothing can be committed as far as it knows, because too few members hear each other: those that it does not hear. Somebody who
    /// was there a leader's time-out ago is one whom it hears.
    pub fn missing(&self) -> Vec<NodeId> {
        let others = self.group.others(self.me);
        match self.leading.unheard_since {
            Some(since) => others.filter(|other| !self.leading.has_heard(*other, since)).collect(),
            None if self.is_suspicious && self.suspects.len() < self.group.failures() => {
                others.filter(|other| !self.suspects.contains_key(other)).collect()
            }
            None => Vec::new(),
        }
    }

    /// Before it ends: has another lead, if it leads and another could at once. Whether there is nothing of that to be done any
    /// more; it is to be called again until then.
    pub fn retire(&mut self, now: Time, out: &mut Outbox<Self>) -> bool {
        match self.leading.nearest(self.committed).filter(|_| self.leads()) {
            Some(successor) => {
                self.request(now, Wish::Resign(successor), out);
                false
            }
            None => self.status != Status::ViewChange,
        }
    }

    pub(crate) fn is_leader_of(&self, view: View) -> bool {
        self.group.leader(view) == self.me.node
    }

    pub(crate) fn is_in_view(&self) -> bool {
        self.status == Status::Normal
    }

    /// Up to where the leader of the view that its log is of has given the entries their places.
    pub(crate) fn ordered(&self) -> SequenceNumber {
        match self.group.protocol() {
            Protocol::Viewstamped => self.log.last(),
            // What is committed has its place for ever.
            Protocol::Fast | Protocol::Speculative => self.ordered.max(self.committed),
        }
    }

    pub(crate) fn record(&self, record: Record, out: &mut Outbox<Self>) {
        if self.options.is_durable {
            out.record(record);
        }
    }

    /// Loses patience after so long, unless it hears something before.
    pub(crate) fn wait(&mut self, patience: Duration, now: Time, out: &mut Outbox<Self>) {
        self.patience_until = now + patience;
        out.set_timer(Timer::Patience, self.patience_until);
    }

    /// Keeps a promise in mind until it can be given.
    pub(crate) fn promise(&mut self, promise: Promise, now: Time, out: &mut Outbox<Self>) {
        let is_durable = out.logged() <= self.durable || !self.options.is_durable;
        #[cfg(test)]
        let is_durable = is_durable || self.group.has(Defect::PromisesEarly);
        if is_durable {
            self.fulfil(promise, now, out);
        } else {
            self.promises.push_back((out.logged(), promise));
        }
    }

    fn fulfil(&mut self, promise: Promise, now: Time, out: &mut Outbox<Self>) {
        match promise {
            Promise::Log(view, held) => self.hold_log(view, held, now, out),
            Promise::View(view) => self.want_view(view, now, out),
        }
    }

    /// Promises to keep its log as it is; not while it lacks what comes before.
    pub(crate) fn promise_log(&mut self, now: Time, out: &mut Outbox<Self>) {
        if self.is_copying() {
            return;
        }
        let held = (self.log.last(), self.ordered());
        self.promise(Promise::Log(self.view, held), now, out);
    }

    /// Keeps a request in mind until a view begins. If there are very many, their clients ask again.
    pub(crate) fn keep_waiting(&mut self, from: NodeId, epoch: u64, entry: crate::Entry) {
        let bytes: usize = self.waiting.iter().map(|(_, request)| request.operation_bytes()).sum();
        if self.waiting.len() < MOST_WAITING && bytes < MOST_WAITING_BYTES {
            let crate::Entry { client, session, number, operation, is_query } = entry;
            let request = Message::Request { client, epoch, session, number, operation, is_query };
            self.waiting.push((from, request));
        }
    }

    /// Whether so much time has passed as an operation says, if it says so.
    pub(crate) fn is_time(&mut self, entry: &crate::Entry, now: Time) -> bool {
        let interval = self.execution.state_machine().interval(&entry.operation);
        let request = (entry.client, entry.number);
        if interval.is_zero() || self.timed.is_some_and(|(timed, _)| timed == request) {
            return true;
        }
        let is_time =
            interval < Duration::MAX && self.timed.is_none_or(|(_, before)| now.since(before) >= interval);
        if is_time {
            self.timed = Some((request, now));
        }
        is_time
    }

    /// Hears what has come since the last view.
    pub(crate) fn hear_waiting(&mut self, now: Time, out: &mut Outbox<Self>) {
        for (from, request) in std::mem::take(&mut self.waiting) {
            self.hear(now, from, request, out);
        }
    }

    /// Whether a client's request is in the log or was: then its client is answered now, if it is committed, or when it is.
    pub(crate) fn knows(&mut self, from: NodeId, entry: &crate::Entry, out: &mut Outbox<Self>) -> bool {
        if let Some(asked) = self.asked.get_mut(&entry.client).filter(|asked| asked.number == entry.number) {
            asked.by = Some(from);
            return true;
        }
        let Some(last) = self.execution.answered(entry.client).filter(|last| last.number >= entry.number)
        else {
            return self.asked.get(&entry.client).is_some_and(|asked| asked.number > entry.number);
        };
        // It may be told that it is forgotten, and be let in before it hears so: then it asks for what it has.
        let is_let_in = entry.asks_to_be_let_in();
        if (last.number == entry.number || is_let_in) && last.at <= self.committed {
            let result = if is_let_in { last.session.0.to_be_bytes().into() } else { last.result.clone() };
            let (client, number) = (entry.client, entry.number);
            out.send(from, Message::Reply { view: self.view, client, number, result });
        }
        true
    }

    /// Whether the log has as many bytes of operations that are carried out as it is to have before the next checkpoint.
    fn has_grown(&self) -> bool {
        #[cfg(test)]
        if self.group.has(Defect::CountsOperations) {
            return false;
        }
        self.since_checkpoint >= self.options.checkpoint_bytes
    }

    #[cfg(test)]
    pub(crate) fn committed_bytes(&self) -> usize {
        let committed = self.log.entries_after(self.log.start()).map(crate::Entry::size).sum::<usize>();
        committed.saturating_sub(self.uncommitted_bytes())
    }

    pub(crate) fn uncommitted_bytes(&self) -> usize {
        self.log.entries_after(self.committed).map(crate::Entry::size).sum()
    }

    /// Whether the log has room for what a client asks for: not for ever, if nothing is committed any more.
    pub(crate) fn has_room(&self, entry: &crate::Entry) -> bool {
        #[cfg(test)]
        if self.group.has(Defect::TakesAll) {
            return true;
        }
        self.uncommitted == 0 || self.uncommitted + entry.size() <= self.options.checkpoint_bytes
    }

    /// Appends to the log what a client has asked for.
    pub(crate) fn append(&mut self, entry: crate::Entry, by: Option<NodeId>, out: &mut Outbox<Self>) {
        self.record(Record::Append(entry.clone()), out);
        self.put(entry, by);
    }

    /// As [`Self::append`], where the record is the caller's.
    pub(crate) fn put(&mut self, entry: crate::Entry, by: Option<NodeId>) {
        self.uncommitted += entry.size();
        self.asked.insert(entry.client, Asked { number: entry.number, by });
        self.log.append(entry);
    }

    /// Removes from the log what comes after `last`; answers what that was, and who had asked for it. The record is the caller's.
    pub(crate) fn cut(&mut self, last: SequenceNumber) -> Vec<(crate::Entry, Option<NodeId>)> {
        if last >= self.log.last() {
            return Vec::new();
        }
        self.assert_uncommitted_after(last);
        self.execution.rollback(last);
        let removed: Vec<_> = self.log.entries_after(last).cloned().collect();
        self.log.truncate(last);
        self.take_back(last);
        self.uncommitted = self.uncommitted_bytes();
        let asked = &mut self.asked;
        let with_asker = |entry: crate::Entry| {
            let is_it = asked.get(&entry.client).is_some_and(|asked| asked.number == entry.number);
            let by = if is_it { asked.remove(&entry.client).and_then(|asked| asked.by) } else { None };
            (entry, by)
        };
        removed.into_iter().map(with_asker).collect()
    }

    /// Nothing that was to be said of its log will be.
    pub(crate) fn promise_no_log(&mut self) {
        self.promises.retain(|(_, promise)| matches!(promise, Promise::View(_)));
        self.is_sure = false;
    }

    /// What comes after `last` is no more what it was: nothing that is said of it, or was to be said, holds.
    pub(crate) fn take_back(&mut self, last: SequenceNumber) {
        self.ordered = self.ordered.min(last);
        self.stable = self.stable.min(last);
        self.stable_ordered = self.stable_ordered.min(last);
        for (_, promise) in &mut self.promises {
            if let Promise::Log(_, (upto, ordered)) = promise {
                (*upto, *ordered) = ((*upto).min(last), (*ordered).min(last));
            }
        }
    }

    /// Commits all that is in the log up to here, and executes it.
    pub(crate) fn commit(&mut self, upto: SequenceNumber, now: Time, out: &mut Outbox<Self>) {
        let before = self.committed;
        let upto = self.copied.map_or(upto, |copied| copied.min(upto));
        self.assert_has(upto);
        self.committed = before.max(upto);
        while self.execution.executed() < self.committed
            && let Some(entry) = self.log.get(self.execution.executed().next())
        {
            self.execution.execute(entry);
        }
        self.execution.commit(self.committed);
        for number in (before.0 + 1..=self.committed.0).map(SequenceNumber) {
            let size = self.log.get(number).map_or(0, crate::Entry::size);
            self.since_checkpoint += size;
            self.uncommitted -= size;
            self.reply(number, out);
        }
        let is_due = self.committed.0 - self.checkpoint.at.0 >= self.options.checkpoint || self.has_grown();
        if let Some(group) = self.committed_group() {
            self.end_epoch(group, now, out);
        } else if is_due && self.committed > self.checkpoint.at && self.execution.may_checkpoint() {
            self.take_checkpoint(out);
        }
    }

    /// The client of an operation that is committed now is answered by the leader, unless it knows by itself.
    pub(crate) fn reply(&mut self, number: SequenceNumber, out: &mut Outbox<Self>) {
        let leads = self.leads();
        let is_found = number > self.leading.began_with && number <= self.leading.found;
        let knows = self.group.protocol() == Protocol::Speculative && is_found;
        let Some(entry) = self.log.get(number) else { return };
        if let Entry::Occupied(asked) = self.asked.entry(entry.client)
            && asked.get().number == entry.number
            && let Some(by) = asked.remove().by.filter(|_| leads)
        {
            let (view, client, number) = (self.view, entry.client, entry.number);
            match self.execution.result_of(entry) {
                Some(_) if knows => {}
                Some(answered) => {
                    let result = answered.result.clone();
                    out.send(by, Message::Reply { view, client, number, result });
                }
                None => out.send(by, Message::Forgotten { view, client, number }),
            }
        }
    }

    /// The log keeps what came between the last two checkpoints for those who are a little behind.
    fn take_checkpoint(&mut self, out: &mut Outbox<Self>) {
        if let Some(summary) = self.log.summary(self.committed) {
            self.execution.rollback(self.committed);
            let checkpoint = Arc::new(self.execution.checkpoint(summary, self.group.clone()));
            self.execute_speculatively();
            let before = std::mem::replace(&mut self.checkpoint, checkpoint.clone());
            self.log.drop_until(before.at);
            self.since_checkpoint = 0;
            self.record(Record::Checkpoint(checkpoint), out);
        }
    }
    /// One that has led before may have said what is not on its disk: others lead the next view. In its first life it says
    /// nothing before it is sure to know that it has begun.
    pub(crate) fn begin_life(&mut self, now: Time, out: &mut Outbox<Self>) {
        let led = self.is_restarted && self.is_leader_of(self.view);
        #[cfg(test)]
        let led = led && !self.group.has(Defect::LeadsAgain);
        self.copy_on(out);
        if self.status == Status::Outside {
            self.stay_outside(now, out);
        } else if led {
            self.leave_for(self.view.after(1), now, out);
        } else if self.last_normal < self.view {
            self.leave_for(self.view, now, out);
        } else if self.is_restarted {
            self.resume(now, out);
        } else {
            self.enter(now, out);
        }
    }

    /// What was recorded up to here is on the disk.
    pub(crate) fn keep_promises(&mut self, upto: Lsn, now: Time, out: &mut Outbox<Self>) {
        self.durable = upto;
        while let Some((_, promise)) = self.promises.pop_front_if(|(lsn, _)| *lsn <= upto) {
            self.fulfil(promise, now, out);
        }
    }
}
