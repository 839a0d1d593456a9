//! A replica: what its protocols have in common.

use crate::execution::Execution;
use crate::view_change::{Candidate, Votes};
use crate::viewstamped::Leading;
use crate::{Checkpoint, ClientId, Group, Log, Message, SequenceNumber, StateMachine, Timer, View};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

/// How a replica works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How often a leader gives a sign.
    pub heartbeat: Duration,
    /// How long a replica waits for one, or for a view to begin, before it wants a later view: several heartbeats.
    pub patience: Duration,
    /// A message holds at most so many operations.
    pub batch: usize,
    /// So many messages of operations are on their way at most; further operations wait for one to be committed, and then go
    /// together.
    pub window: usize,
    /// So many operations are executed from one checkpoint to the next.
    pub checkpoint: u64,
    /// Whether nothing is promised before it is on the disk. Without, a replica that has crashed must not come back.
    pub is_durable: bool,
    #[cfg(test)]
    pub(crate) defect: Option<Defect>,
}

/// What the simulation must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// What f replicas hold is committed.
    CommitsTooEarly,
}

impl Default for Options {
    /// For a network of microseconds, and disks.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(20),
            patience: Duration::from_millis(100),
            batch: 64,
            window: 2,
            checkpoint: 10_000,
            is_durable: true,
            #[cfg(test)]
            defect: None,
        }
    }
}

/// What a replica must find again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// It has left all views before `view`; its log is that of `last_normal`.
    View {
        /// The view that it is in, or wants to be.
        view: View,
        /// The last view that it was in.
        last_normal: View,
    },
    /// The next entry of the log.
    Append(crate::Entry),
    /// The log has no entries after this one.
    Truncate(SequenceNumber),
    /// What comes up to this is known from it, and no record before is needed for that.
    Checkpoint(Arc<Checkpoint>),
}

/// Whether a replica takes part in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It does.
    Normal,
    /// The view has not begun, as far as it knows.
    ViewChange,
}

/// What a replica may say once its records so far are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// That it holds this view's log up to here.
    Log(View, SequenceNumber),
    /// That it has left all views before this one.
    View(View),
}

/// A request that is in the log and not executed, and whom to answer.
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) by: Option<NodeId>,
}

/// A member of a group.
///
/// Invariants, with `n` for any sequence number:
/// - `log.start() <= checkpoint.at <= executed <= committed`, and if it is in a view, `committed <= log.last()`;
/// - no replica ever commits two different operations at `n`;
/// - `last_normal <= view`, and they are equal if it is in a view.
pub struct Replica<S> {
    pub(crate) me: NodeId,
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
    /// What is in the log and not executed.
    pub(crate) asked: BTreeMap<ClientId, Asked>,
    /// It will not forget this view's log up to here.
    pub(crate) stable: SequenceNumber,
    /// The last of the leader's questions whether it still leads.
    pub(crate) round: u64,
    /// As a leader.
    pub(crate) leading: Leading,
    /// While a view is to begin.
    pub(crate) votes: Votes,
    /// How many views in a row have not begun.
    pub(crate) failed_views: u32,
    /// Until then no state is asked for again.
    pub(crate) asked_state_until: Time,
    promises: VecDeque<(Lsn, Promise)>,
    durable: Lsn,
    /// Whether it has had a life before.
    is_restarted: bool,
}

impl<S: StateMachine> Replica<S> {
    /// The member `me` of a group, as its records left it; `state_machine` is in the state before any operation.
    pub fn new(me: NodeId, group: Group, options: Options, state_machine: S, records: &[Record]) -> Self {
        let mut replica = Self {
            me,
            group,
            options,
            status: Status::Normal,
            view: View(0),
            last_normal: View(0),
            log: Log::default(),
            committed: SequenceNumber(0),
            execution: Execution::new(state_machine),
            checkpoint: Arc::default(),
            asked: BTreeMap::new(),
            stable: SequenceNumber(0),
            round: 0,
            leading: Leading::default(),
            votes: Votes::default(),
            failed_views: 0,
            asked_state_until: Time::ZERO,
            promises: VecDeque::new(),
            durable: Lsn(records.len() as u64),
            is_restarted: !records.is_empty(),
        };
        let mut checkpoint = None;
        for record in records {
            match record {
                Record::View { view, last_normal } => {
                    (replica.view, replica.last_normal) = (*view, *last_normal);
                }
                Record::Append(entry) => {
                    replica.log.append(entry.clone());
                }
                Record::Truncate(last) => replica.log.truncate(*last),
                Record::Checkpoint(known) => {
                    if replica.log.summary(known.at) != Some(known.summary) {
                        replica.log = Log::after(known.at, known.summary);
                    }
                    checkpoint = Some(known);
                }
            }
        }
        if let Some(checkpoint) = checkpoint {
            replica.checkpoint = checkpoint.clone();
            replica.committed = checkpoint.at;
            replica.execution.restore(checkpoint);
        }
        if replica.last_normal < replica.view {
            replica.status = Status::ViewChange;
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

    /// The last operation that is committed, as far as this replica knows.
    pub const fn committed(&self) -> SequenceNumber {
        self.committed
    }

    /// The view that it is in, if it is in one.
    pub fn view(&self) -> Option<View> {
        (self.status == Status::Normal).then_some(self.view)
    }

    /// What [`Replica`]'s invariants say of one replica alone, and does not hold.
    pub fn problems(&self) -> Vec<String> {
        let (start, last, executed) = (self.log.start(), self.log.last(), self.execution.executed());
        let mut problems = Vec::new();
        let mut require = |holds: bool, what: &str| {
            if !holds {
                problems.push(format!(
                    "{}: {what}: {start:?} {executed:?} {:?} {last:?}",
                    self.me, self.committed
                ));
            }
        };
        require(start <= self.checkpoint.at, "the log begins after the checkpoint");
        require(self.checkpoint.at <= executed, "the checkpoint is of the future");
        require(executed <= self.committed, "what is executed is not committed");
        let is_normal = self.status == Status::Normal;
        require(!is_normal || self.committed <= last, "what is committed is not in the log");
        require(self.last_normal <= self.view, "the log is of a view to come");
        require(!is_normal || self.last_normal == self.view, "the log is of another view");
        problems
    }

    pub(crate) fn leads(&self) -> bool {
        self.status == Status::Normal && self.group.leader(self.view) == self.me
    }

    pub(crate) fn record(&self, record: Record, out: &mut Outbox<Self>) {
        if self.options.is_durable {
            out.record(record);
        }
    }

    /// Keeps a promise in mind until it can be given.
    pub(crate) fn promise(&mut self, promise: Promise, now: Time, out: &mut Outbox<Self>) {
        if out.logged() <= self.durable || !self.options.is_durable {
            self.fulfil(promise, now, out);
        } else {
            self.promises.push_back((out.logged(), promise));
        }
    }

    fn fulfil(&mut self, promise: Promise, now: Time, out: &mut Outbox<Self>) {
        match promise {
            Promise::Log(view, upto) => self.hold_log(view, upto, now, out),
            Promise::View(view) => self.want_view(view, now, out),
        }
    }

    /// Appends to the log what a client has asked for.
    pub(crate) fn append(&mut self, entry: crate::Entry, by: Option<NodeId>, out: &mut Outbox<Self>) {
        self.asked.insert(entry.client, Asked { number: entry.number, by });
        self.record(Record::Append(entry.clone()), out);
        self.log.append(entry);
    }

    /// Commits all that is in the log up to here, and executes it.
    pub(crate) fn commit(&mut self, upto: SequenceNumber, out: &mut Outbox<Self>) {
        self.committed = self.committed.max(upto.min(self.log.last()));
        let leads = self.leads();
        while self.execution.executed() < self.committed
            && let Some(entry) = self.log.get(self.execution.executed().next())
        {
            let result = self.execution.execute(entry);
            if let Entry::Occupied(asked) = self.asked.entry(entry.client)
                && asked.get().number == entry.number
                && let Some(client) = asked.remove().by.filter(|_| leads)
            {
                let (view, number, result) = (self.view, entry.number, result.to_vec());
                out.send(client, Message::Reply { view, number, result });
            }
        }
        if self.execution.executed().0 - self.checkpoint.at.0 >= self.options.checkpoint {
            self.take_checkpoint(out);
        }
    }

    /// The log keeps what came between the last two checkpoints for those who are a little behind.
    fn take_checkpoint(&mut self, out: &mut Outbox<Self>) {
        if let Some(summary) = self.log.summary(self.execution.executed()) {
            let checkpoint = Arc::new(self.execution.checkpoint(summary));
            let before = std::mem::replace(&mut self.checkpoint, checkpoint.clone());
            self.log.drop_until(before.at);
            self.record(Record::Checkpoint(checkpoint), out);
        }
    }
}

impl<S: StateMachine> Process for Replica<S> {
    type Message = Message;
    type Timer = Timer;
    type Request = std::convert::Infallible;
    type Event = std::convert::Infallible;
    type Record = Record;

    /// One that has led before may have said what is not on its disk: others lead the next view. In its first life it says
    /// nothing before it is sure to know that it has begun.
    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        let led = self.is_restarted && self.group.leader(self.view) == self.me;
        if led {
            self.leave_for(self.view.next(), now, out);
        } else if self.last_normal < self.view {
            self.leave_for(self.view, now, out);
        } else {
            self.record(Record::View { view: self.view, last_normal: self.last_normal }, out);
            self.enter(now, out);
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Request { client, number, operation, is_query } => {
                if is_query {
                    self.query(from, number, operation, out);
                } else {
                    self.order(from, crate::Entry { client, number, operation }, now, out);
                }
            }
            // Not for a replica.
            Message::Reply { .. } => {}
            Message::Prepare { view, from: first, entries, committed } => {
                self.prepare(from, view, (first, entries), committed, now, out);
            }
            Message::Commit { view, committed, round } => {
                self.hear_leader(from, view, (committed, round), now, out);
            }
            Message::PrepareOk { view, upto, round } => self.prepared(from, view, (upto, round), out),
            Message::StartViewChange { view } => self.vote(from, view, now, out),
            Message::DoViewChange { view, last_normal, log, committed } => {
                self.collect(from, view, Candidate { last_normal, log, committed }, now, out);
            }
            Message::StartView { view, checkpoint, log, committed } => {
                self.start_view(from, view, checkpoint, (log, committed), now, out);
            }
            Message::GetState { view, committed } => self.give_state(from, view, committed, out),
            Message::State(checkpoint) => self.take_state(&checkpoint, now, out),
        }
    }

    fn expire(&mut self, now: Time, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Heartbeat => self.give_sign(now, out),
            Timer::Patience => self.lose_patience(now, out),
        }
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        self.durable = upto;
        while let Some((_, promise)) = self.promises.pop_front_if(|(lsn, _)| *lsn <= upto) {
            self.fulfil(promise, now, out);
        }
    }
}
