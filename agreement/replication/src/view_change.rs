//! From a view to a later one (Liskov and Cowling 2012, section 4.2): who has lost patience with a leader tells the others; who
//! knows that f others want the view, too, sends its log to the view's leader; of f + 1 logs that chooses the one with which the
//! view begins.

use crate::replica::{Promise, Record, Status};
use crate::viewstamped::Leading;
use crate::{Checkpoint, Log, Message, Replica, SequenceNumber, StateMachine, Timer, View};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of a view that is to begin.
#[derive(Default)]
pub(crate) struct Votes {
    /// Whether this replica is sure not to go back to an earlier view.
    is_promised: bool,
    /// Who else wants it.
    wanted_by: BTreeSet<NodeId>,
    /// Whether this replica has sent its log.
    is_sent: bool,
    /// What came to the leader.
    logs: BTreeMap<NodeId, Candidate>,
}

/// A log to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Whose view's it is.
    pub(crate) last_normal: View,
    pub(crate) log: Log,
    pub(crate) committed: SequenceNumber,
}

/// The log with which a view begins, and whose it was: of those of the last view the longest. Whatever was committed in that view
/// is held by f + 1 replicas, one of which has sent its log; and each later entry of that log comes after it.
pub(crate) fn choose(logs: &BTreeMap<NodeId, Candidate>) -> Option<(NodeId, &Log)> {
    let best = logs.iter().max_by_key(|(_, candidate)| (candidate.last_normal, candidate.log.last()));
    best.map(|(owner, candidate)| (*owner, &candidate.log))
}

impl<S: StateMachine> Replica<S> {
    /// Takes part in its view no more, nor in any before `view`, which is to begin.
    pub(crate) fn leave_for(&mut self, view: View, now: Time, out: &mut Outbox<Self>) {
        self.status = Status::ViewChange;
        self.view = view;
        self.votes = Votes::default();
        self.leading = Leading::default();
        self.record(Record::View { view, last_normal: self.last_normal }, out);
        let patience = self.options.patience * (1 << self.failed_views.min(5));
        out.set_timer(Timer::Patience, now + patience);
        out.cancel_timer(Timer::Heartbeat);
        self.promise(Promise::View(view), now, out);
    }

    /// The leader is not heard of, or the view does not begin.
    pub(crate) fn lose_patience(&mut self, now: Time, out: &mut Outbox<Self>) {
        if !self.leads() {
            self.failed_views += u32::from(self.status == Status::ViewChange);
            self.leave_for(self.view.next(), now, out);
        }
    }

    /// It will not go back to an earlier view, and may say so.
    pub(crate) fn want_view(&mut self, view: View, now: Time, out: &mut Outbox<Self>) {
        if self.status == Status::ViewChange && view == self.view {
            self.votes.is_promised = true;
            self.group.others(self.me).for_each(|other| out.send(other, Message::StartViewChange { view }));
            self.send_log(now, out);
        }
    }

    /// Another wants this view.
    pub(crate) fn vote(&mut self, from: NodeId, view: View, now: Time, out: &mut Outbox<Self>) {
        if view > self.view {
            self.leave_for(view, now, out);
        }
        if view == self.view && self.status == Status::ViewChange {
            self.votes.wanted_by.insert(from);
            self.send_log(now, out);
        } else if view == self.view {
            // It has begun, and the other has not heard of it.
            self.give_state(from, view, SequenceNumber(0), out);
        }
    }

    /// Sends the leader of the view its log, if f others want the view.
    fn send_log(&mut self, now: Time, out: &mut Outbox<Self>) {
        let votes = &mut self.votes;
        if votes.is_sent || !votes.is_promised || votes.wanted_by.len() < self.group.failures() {
            return;
        }
        votes.is_sent = true;
        let (view, last_normal, committed) = (self.view, self.last_normal, self.committed);
        let log = self.log.clone();
        let leader = self.group.leader(view);
        if leader == self.me {
            self.collect(leader, view, Candidate { last_normal, log, committed }, now, out);
        } else {
            out.send(leader, Message::DoViewChange { view, last_normal, log, committed });
        }
    }

    /// As the leader of the view: a log has come.
    pub(crate) fn collect(
        &mut self,
        from: NodeId,
        view: View,
        candidate: Candidate,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        if view > self.view {
            self.leave_for(view, now, out);
        }
        if view == self.view && self.status == Status::ViewChange && self.group.leader(view) == self.me {
            self.votes.logs.insert(from, candidate);
            self.begin(now, out);
        } else if view == self.view {
            self.give_state(from, view, SequenceNumber(0), out);
        }
    }

    /// Begins the view, if its log can be told.
    pub(crate) fn begin(&mut self, now: Time, out: &mut Outbox<Self>) {
        let logs = &self.votes.logs;
        if !self.votes.is_sent || logs.len() < self.group.quorum() {
            return;
        }
        let Some((owner, log)) = choose(logs) else { return };
        if log.start() > self.committed {
            let (view, committed) = (self.view, self.committed);
            return out.send(owner, Message::GetState { view, committed });
        }
        let log = log.clone();
        let committed = logs.values().map(|candidate| candidate.committed).max();
        self.install(&log, out);
        self.commit(committed.unwrap_or_default(), out);
        self.enter(now, out);
    }

    /// Makes its log the same as `log`, which has all that is committed.
    fn install(&mut self, log: &Log, out: &mut Outbox<Self>) {
        let agreed = self.log.agrees_until(log, self.committed).unwrap_or(self.committed);
        if agreed < self.log.last() {
            for (_, entry) in self.log.from(agreed.next(), usize::MAX) {
                self.asked.remove(&entry.client);
            }
            self.log.truncate(agreed);
            self.record(Record::Truncate(agreed), out);
        }
        self.extend(log, out);
    }

    /// Appends what `log` has after the end of its own.
    fn extend(&mut self, log: &Log, out: &mut Outbox<Self>) {
        for (_, entry) in log.from(self.log.last().next(), usize::MAX) {
            self.append(entry.clone(), None, out);
        }
    }

    /// Takes part in its view, whose log it has.
    pub(crate) fn enter(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.status = Status::Normal;
        self.last_normal = self.view;
        self.votes = Votes::default();
        self.failed_views = 0;
        self.stable = SequenceNumber(0);
        self.round = 0;
        self.leading = Leading::after(self.log.last());
        self.record(Record::View { view: self.view, last_normal: self.view }, out);
        if self.leads() {
            out.cancel_timer(Timer::Patience);
        } else {
            out.set_timer(Timer::Patience, now + self.options.patience);
        }
        self.promise(Promise::Log(self.view, self.log.last()), now, out);
    }

    /// A view has begun, or goes on, with this log.
    pub(crate) fn start_view(
        &mut self,
        from: NodeId,
        view: View,
        checkpoint: Option<Arc<Checkpoint>>,
        (log, committed): (Log, SequenceNumber),
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        let is_in_it = view == self.view && self.status == Status::Normal;
        if view < self.view || self.group.leader(view) != from || self.me == from {
            return;
        }
        if let Some(checkpoint) = checkpoint {
            self.adopt(&checkpoint, out);
        }
        if log.start() > self.committed {
            return self.ask_state(from, view, now, out);
        }
        if is_in_it {
            // It may be late: what came since stays.
            self.extend(&log, out);
            self.commit(committed, out);
            self.promise(Promise::Log(view, self.log.last()), now, out);
        } else {
            self.view = view;
            self.install(&log, out);
            self.commit(committed, out);
            self.enter(now, out);
        }
    }
}
