//! From a view to a later one (Liskov and Cowling 2012, section 4.2): who has lost patience with a leader tells the others; who
//! knows that f others want the view, too, sends its log to the view's leader; of f + 1 logs that chooses the one with which the
//! view begins.
//!
//! *Known as:* view change, leader election.

use crate::Record;
#[cfg(test)]
use crate::group::Defect;
use crate::leader::Leading;
use crate::merge::{Candidate, merge};
use crate::replica::{Promise, Status};
use crate::{
    Checkpoint, Entry, Event, Log, Message, Protocol, Replica, SequenceNumber, StateMachine, Summary, Timer,
    View,
};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many times its patience a replica waits for a leader that works on something.
const LONGEST_WORK: u32 = 20;

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
    /// With what the leader wants its epoch to end.
    closing: Option<Entry>,
}

impl<S: StateMachine> Replica<S> {
    /// Takes part in its view no more, nor in any before `view`, which is to begin.
    pub(crate) fn leave_for(&mut self, view: View, now: Time, out: &mut Outbox<Self>) {
        self.leave(view, None, now, out);
    }

    /// As [`Self::leave_for`]; if it comes to lead that view, the log with which it begins ends with `closing`.
    pub(crate) fn leave(&mut self, view: View, closing: Option<Entry>, now: Time, out: &mut Outbox<Self>) {
        self.status = Status::ViewChange;
        self.view = view;
        self.votes = Votes { closing, ..Votes::default() };
        self.leading = Leading::default();
        self.trust(now);
        self.record(Record::View { view, last_normal: self.last_normal }, out);
        let patience = self.options.patience * (1 << self.failed_views.min(5));
        self.wait(patience, now, out);
        out.cancel_timer(Timer::Heartbeat);
        self.promise(Promise::View(view), now, out);
    }

    /// The leader is not heard of, or the view does not begin.
    pub(crate) fn lose_patience(&mut self, now: Time, out: &mut Outbox<Self>) {
        if now < self.patience_until {
            return;
        }
        if self.status == Status::Outside {
            self.knock(now, out);
        } else if !self.leads() {
            self.suspect(now, out);
        }
    }

    /// It hears of no leader, and says so as long as that is so. Who has left a view tells that again, too: it may not have been heard.
    pub(crate) fn suspect(&mut self, now: Time, out: &mut Outbox<Self>) {
        let view = self.view;
        self.is_suspicious = true;
        for other in self.group.others(self.me) {
            if self.votes.is_promised {
                out.send(other, Message::StartViewChange { view });
            }
            out.send(other, Message::Suspect { view });
        }
        if self.votes.is_sent && !self.is_leader_of(view) {
            out.send(self.group.leader(view), self.do_view_change(self.committed));
        }
        self.wait(self.options.patience / 2, now, out);
        self.agree_to_leave(now, out);
    }

    /// Another hears of no leader. If it is in a later view, enough have left this one, and it may wait for this replica there.
    pub(crate) fn hear_suspicion(&mut self, from: NodeId, view: View, now: Time, out: &mut Outbox<Self>) {
        if view > self.view {
            return self.leave_for(view, now, out);
        }
        if view == self.view && from == self.group.leader(view) {
            // The leader may have missed what this replica had to say, and gives no sign that would be answered.
            self.confirm(out);
        }
        self.hear_backup(from, view, now);
        self.suspects.insert(from, now);
        if view == self.view && from != self.group.leader(view) {
            self.lose_patience_with(now, out);
        }
        self.agree_to_leave(now, out);
    }

    /// Where another hears of no leader, this replica waits for a sign as long as it would for one that was never slow.
    fn lose_patience_with(&mut self, now: Time, out: &mut Outbox<Self>) {
        if !self.is_in_view() || self.leads() || self.is_suspicious {
            return;
        }
        let until = self.trusted + self.options.patience;
        if until < self.patience_until {
            // Though that time may be over: a sign that came before this message may be heard after it.
            self.wait(until.since(now), now, out);
        }
    }

    /// Wants the next view, if f others hear of no leader either: whoever hears nothing cannot disturb those who hear each other.
    fn agree_to_leave(&mut self, now: Time, out: &mut Outbox<Self>) {
        let since = self.options.patience;
        self.suspects.retain(|_, said| now.since(*said) <= since);
        let needed = self.group.failures();
        #[cfg(test)]
        let needed = if self.group.has(Defect::Impatient) { 0 } else { needed };
        if self.is_suspicious && self.suspects.len() >= needed && !self.leads() {
            self.failed_views += u32::from(self.status == Status::ViewChange);
            self.leave_for(self.view.after(1), now, out);
        }
    }

    /// Another member is there, though it works on something: nobody loses patience with it, for a while.
    pub(crate) fn bear_with(&mut self, peer: NodeId, now: Time, out: &mut Outbox<Self>) {
        if self.status == Status::Outside {
            return;
        }
        if self.group.leader(self.view) == peer {
            if now.since(self.heard_leader) < self.options.patience * LONGEST_WORK {
                self.trust(now);
                self.wait(self.patience(), now, out);
            }
        } else if self.leads() && self.group.contains(peer) {
            self.hear_backup(peer, self.view, now);
            self.leading.stalled = 0;
        }
    }

    /// The connection with another has ended. A leader that is there all the same says so before long: an idle one within two heartbeats.
    pub(crate) fn miss(&mut self, peer: NodeId, now: Time, out: &mut Outbox<Self>) {
        let soon = 3 * self.options.heartbeat;
        if self.is_in_view() && self.group.leader(self.view) == peer && self.patience_until > now + soon {
            self.wait(soon, now, out);
        }
    }

    /// There is a leader, or may be soon.
    pub(crate) fn trust(&mut self, now: Time) {
        self.trusted = now;
        self.is_suspicious = false;
        self.suspects.clear();
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
        } else if view == self.view && self.leads() {
            // It has begun, and the other has not heard of it.
            self.tell_backups(out);
        }
    }

    /// Sends the leader of the view its log, if f others want the view.
    fn send_log(&mut self, now: Time, out: &mut Outbox<Self>) {
        let votes = &mut self.votes;
        if votes.is_sent || !votes.is_promised || votes.wanted_by.len() < self.group.failures() {
            return;
        }
        votes.is_sent = true;
        let leader = self.group.leader(self.view);
        if leader == self.me.node {
            self.collect(leader, self.view, self.candidate(self.committed, usize::MAX), now, out);
        } else {
            out.send(leader, self.do_view_change(self.committed));
        }
    }

    /// Its log, as far as it comes after `from`: what is committed there has its place for ever.
    fn candidate(&self, from: SequenceNumber, bytes: usize) -> Candidate {
        Candidate {
            last_normal: self.last_normal,
            log: self.log.part(from, bytes),
            end: self.log.end(),
            ordered: self.ordered(),
            committed: self.committed,
        }
    }

    fn do_view_change(&self, from: SequenceNumber) -> Message {
        let Candidate { last_normal, log, end, ordered, committed } = self.candidate(from, self.part_bytes());
        Message::DoViewChange { view: self.view, last_normal, log, end, ordered, committed }
    }

    /// The leader of the view that is to begin has committed less than this replica, and wants its log from there on.
    pub(crate) fn send_log_again(
        &self,
        to: NodeId,
        view: View,
        from: SequenceNumber,
        out: &mut Outbox<Self>,
    ) {
        if self.status == Status::ViewChange && view == self.view && self.votes.is_sent {
            out.send(to, self.do_view_change(from));
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
        let committed = candidate.committed;
        if view == self.view && self.status == Status::ViewChange && self.is_leader_of(view) {
            self.take_part_of_log(from, candidate, now, out);
            self.begin(now, out);
        } else if view == self.view {
            self.give_state(from, view, (committed, committed), out);
        }
    }

    /// Part of a log has come: what it has itself need not come, and what has not come yet it asks for.
    fn take_part_of_log(
        &mut self,
        from: NodeId,
        mut candidate: Candidate,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        let (start, (end, summary)) = (candidate.log.start(), candidate.end);
        if !candidate.is_whole()
            && self.log.summary(end) == Some(summary)
            && self.log.summary(start) == candidate.log.summary(start)
        {
            candidate.log = self.log.part(start, usize::MAX);
            candidate.log.truncate(end);
        }
        let mut is_next = true;
        if let Some(mut before) = self.votes.logs.remove(&from)
            && before.end == candidate.end
            && before.log.start() <= start
        {
            // A part that came before, or comes too early, leaves what has come.
            is_next = candidate.log.last() > before.log.last() && before.log.go_on_with(&candidate.log);
            candidate.log = before.log;
        }
        if !candidate.is_whole() && (is_next || now >= self.asked_state_until) {
            let (view, committed) = (self.view, self.committed);
            let after = if candidate.has_begin() { candidate.log.last() } else { candidate.committed };
            self.asked_state_until = now + self.options.heartbeat;
            out.send(from, Message::GetState { view, committed, after });
        }
        if is_next && !candidate.is_whole() {
            self.wait(self.options.patience, now, out);
        }
        self.votes.logs.insert(from, candidate);
    }

    /// Begins the view, if its log can be told.
    pub(crate) fn begin(&mut self, now: Time, out: &mut Outbox<Self>) {
        let whole = self.votes.logs.iter().filter(|(_, candidate)| candidate.is_whole());
        if !self.votes.is_sent || whole.clone().count() < self.group.quorum() || self.is_copying() {
            return;
        }
        let logs = &whole.map(|(owner, candidate)| (*owner, candidate.clone())).collect();
        let Some((owner, log)) = self.merge(logs) else { return };
        let mut log = self.reaching_back(log);
        if log.start() > self.committed {
            let (view, committed) = (self.view, self.committed);
            return out.send(owner, Message::GetState { view, committed, after: committed });
        }
        let committed = logs.values().map(|candidate| candidate.committed);
        let (least, committed) = (committed.clone().min(), committed.max());
        if let Some(entry) = self.votes.closing.take().filter(|_| !log.is_closed()) {
            log.append(entry);
        }
        self.install(&log, now, out);
        self.leading.shared = least.unwrap_or_default();
        // As the leader that it is now: it answers those who wait for that.
        self.commit(committed.unwrap_or_default(), now, out);
    }

    fn merge(&self, logs: &BTreeMap<NodeId, Candidate>) -> Option<(NodeId, Log)> {
        #[cfg(test)]
        if self.group.defect == Some(Defect::IgnoresLastNormal) {
            let same = |(owner, log): (&NodeId, &Candidate)| {
                (*owner, Candidate { last_normal: View::first_of(0), ordered: log.committed, ..log.clone() })
            };
            return merge(&logs.iter().map(same).collect());
        }
        merge(logs)
    }

    /// Takes part in its view, with this log, which has all that is committed.
    fn install(&mut self, log: &Log, now: Time, out: &mut Outbox<Self>) {
        let after = self.log.agrees_until(log, self.committed).unwrap_or(self.committed);
        let entries = log.entries_after(after).cloned().collect();
        #[cfg(test)]
        if self.group.has(Defect::TearsInstall) {
            self.replace(after, log, out);
            return self.enter(now, out);
        }
        self.record(Record::Install { view: self.view, after, entries }, out);
        self.exchange(after, log);
        self.take_part(now, out);
    }

    /// Takes part in its view, whose log it has.
    pub(crate) fn enter(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.record(Record::View { view: self.view, last_normal: self.view }, out);
        self.take_part(now, out);
    }

    fn take_part(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.last_normal = self.view;
        self.ordered = self.log.last();
        self.resume(now, out);
    }

    /// Takes part in the view that its log is of.
    pub(crate) fn resume(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.status = Status::Normal;
        self.votes = Votes::default();
        self.failed_views = 0;
        self.trust(now);
        (self.heard_leader, self.has_heard_leader) = (now, false);
        (self.stable, self.stable_ordered, self.is_sure) = (SequenceNumber(0), SequenceNumber(0), false);
        self.round = 0;
        self.early.clear();
        self.incoming = None;
        self.leading = Leading::after(self.log.last(), now);
        self.execute_speculatively();
        if self.leads() {
            out.cancel_timer(Timer::Patience);
        } else {
            self.wait(self.patience(), now, out);
        }
        out.event(Event::View(self.view));
        self.promise_log(now, out);
    }

    /// A view has begun, or goes on, with this log.
    pub(crate) fn start_view(
        &mut self,
        from: NodeId,
        view: View,
        checkpoint: Option<Arc<Checkpoint>>,
        (log, end, committed): (Log, (SequenceNumber, Summary), SequenceNumber),
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        let is_in_it = view == self.view && self.is_in_view();
        if view < self.view || self.group.leader(view) != from || self.me.node == from {
            return;
        }
        if let Some(checkpoint) = checkpoint {
            self.adopt(from, &checkpoint, now, out);
        }
        if !is_in_it {
            let Some(log) = self.assemble(from, view, log, end, now, out) else { return };
            self.view = view;
            self.install(&log, now, out);
            // What comes after it is not the leader's.
            self.commit(committed.min(log.last()), now, out);
        } else if self.is_other(&log) {
            self.leave_for(view.after(1), now, out);
        } else {
            let before = self.log.last();
            if !self.follow_order(&log, out) {
                return self.ask_state(from, view, now, out);
            }
            self.execute_speculatively();
            self.commit(committed.min(log.last()), now, out);
            self.promise_log(now, out);
            let is_next = self.log.last() > before;
            if self.is_in_view() && is_next && self.log.last() < committed.max(end.0) {
                self.ask_next_part(from, view, out);
            }
        }
    }

    /// Whether it has answered clients from a log that is not the leader's, and they may have believed it. Where a superquorum is all of them
    /// nobody has: the leader has not answered so.
    pub(crate) fn is_other(&self, log: &Log) -> bool {
        let last = self.log.last().min(log.last());
        let is_known = last >= log.start().max(self.log.start());
        self.group.protocol() == Protocol::Speculative
            && !self.may_impose()
            && is_known
            && self.log.summary(last) != log.summary(last)
    }
}
