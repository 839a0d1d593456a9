//! From a group to the one that follows it: other members, or another protocol (after Liskov and Cowling 2012, section 7).
//!
//! The group is a client of itself: an operation of its own in the log names the group that goes on from there. Nothing comes
//! after that in the log of its epoch. The leader has the view begin anew with it, so that under every protocol it has its place
//! from a leader, after what the members had found; once it is committed the next epoch begins with a checkpoint, and with a view
//! that is later than all before.
//!
//! That is also how a replica comes back that has lost its memory. It may have promised what it does not know any more, so it
//! takes part in nothing until it stands in the group as another incarnation; then what its former self has said was said in
//! epochs that are over. To be told the others' state would not be enough (Michael and others 2017): a promise that was on its way
//! when they were asked would count later.
//!
//! *Known as:* reconfiguration, membership change.

use crate::Record;
#[cfg(test)]
use crate::group::Defect;
use crate::replica::Status;
use crate::wire::{decode_group, encode_group};
use crate::{ClientId, Entry, Group, Log, Message, Replica, SequenceNumber, StateMachine, Timer, View};
use fulmar_node::{NodeId, Outbox, Time};
use std::cmp::Ordering;
use std::sync::Arc;

impl Entry {
    /// The end of an epoch that this group is to follow.
    pub(crate) fn for_group(next: &Group) -> Self {
        let (session, operation) = (SequenceNumber(0), encode_group(next));
        Self { client: ClientId::GROUP, session, number: next.epoch(), operation, is_query: false }
    }

    /// The group that is to follow, if this is what the entry is for.
    pub(crate) fn next_group(&self) -> Option<Group> {
        if self.client == ClientId::GROUP { decode_group(&self.operation) } else { None }
    }
}

impl<S: StateMachine> Replica<S> {
    /// Somebody wants this group to follow the one there is.
    pub(crate) fn reconfigure(&mut self, from: NodeId, entry: Entry, now: Time, out: &mut Outbox<Self>) {
        let is_established = self.leading.is_established;
        #[cfg(test)]
        let is_established = is_established || self.group.has(Defect::GoesOnUnestablished);
        if !self.leads() || !is_established {
            return;
        }
        let next = self.group.epoch() + 1;
        if entry.number < next {
            out.send(from, Message::Group(self.group.clone()));
            let (view, client, number) = (self.view, ClientId::GROUP, entry.number);
            out.send(
                from,
                Message::Reply { view, client, number, result: encode_group(&self.group).to_vec() },
            );
        } else if entry.number == next
            && entry.next_group().is_some_and(|group| group.epoch() == next && self.may_follow(&group))
        {
            // The next view that it leads itself.
            let view = self.view.after(self.group.members().len() as u64);
            self.leave(view, Some(entry), now, out);
        }
    }

    /// The group that follows, if that is what was committed last.
    pub(crate) fn committed_group(&self) -> Option<Group> {
        let group = self.log.get(self.committed)?.next_group()?;
        #[cfg(test)]
        let group = group.with_defect(self.group.defect);
        Some(group)
    }

    /// Its group is over, and this one follows.
    pub(crate) fn end_epoch(&mut self, group: Group, now: Time, out: &mut Outbox<Self>) {
        let Some(summary) = self.log.summary(self.committed) else { return };
        if self.leads() {
            // Those who are not in the next one would wait for ever.
            self.tell_backups(out);
        }
        self.checkpoint = Arc::new(self.execution.checkpoint(summary, group));
        self.log = Log::after(self.committed, summary);
        self.record(Record::Adopt(self.checkpoint.clone()), out);
        self.begin_epoch(now, out);
    }

    /// Whether it does not know how this epoch began: that is in a checkpoint.
    pub(crate) fn is_behind_epoch(&self, epoch: u64) -> bool {
        match epoch.cmp(&self.group.epoch()) {
            Ordering::Greater => true,
            Ordering::Equal => epoch > 0 && self.checkpoint.at == SequenceNumber(0),
            Ordering::Less => false,
        }
    }

    /// Takes its part in the group that its checkpoint is of.
    pub(crate) fn begin_epoch(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.group = self.checkpoint.group.clone();
        self.view = View::first_of(self.group.epoch());
        self.asked.clear();
        if self.group.members().contains(&self.me) {
            self.enter(now, out);
        } else {
            self.stay_outside(now, out);
        }
    }

    /// Is no member of the group that it knows.
    pub(crate) fn stay_outside(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.status = Status::Outside;
        self.last_normal = self.view;
        self.successors.clear();
        out.cancel_timer(Timer::Heartbeat);
        self.knock(now, out);
    }

    /// If it has only been told of its group, asks for what there is to know. If a former self of this replica is a member, asks to be
    /// let in. If none is, its group may have been the one before: it sees to it that the members hear of theirs, until so many have
    /// begun that they need it no more.
    pub(crate) fn knock(&mut self, now: Time, out: &mut Outbox<Self>) {
        let message = match self.group.with_incarnation(self.me) {
            _ if self.is_behind_epoch(self.group.epoch()) => {
                let committed = self.committed;
                Message::GetState { view: self.view, committed, after: committed }
            }
            Some(next) => Message::Request {
                client: ClientId::GROUP,
                epoch: self.group.epoch(),
                session: SequenceNumber(0),
                number: next.epoch(),
                operation: encode_group(&next),
                is_query: false,
            },
            None if self.successors.len() < self.group.quorum() => Message::Group(self.group.clone()),
            None => return,
        };
        self.group.others(self.me).for_each(|other| out.send(other, message.clone()));
        self.wait(self.options.patience, now, out);
    }

    /// Whether a message that only members of one group exchange is for this replica to act on: it is a member, and so is `from`, of
    /// the same group. Whoever is behind is told, or asks.
    pub(crate) fn is_among_members(
        &mut self,
        from: NodeId,
        message: &Message,
        now: Time,
        out: &mut Outbox<Self>,
    ) -> bool {
        let Some(view) = message.view() else { return true };
        if let Message::StartView { checkpoint: Some(checkpoint), .. } = message
            && self.is_behind_epoch(checkpoint.group.epoch())
        {
            self.adopt(from, checkpoint, now, out);
        }
        if self.is_behind_epoch(view.epoch) {
            self.ask_state(from, view, now, out);
        } else if view.epoch < self.group.epoch() {
            self.tell_group(from, out);
        }
        view.epoch == self.group.epoch() && self.status != Status::Outside && self.group.contains(from)
    }

    /// Another knows this group. If it is a member of it, it has begun it.
    pub(crate) fn hear_of_group(&mut self, from: NodeId, group: &Group, now: Time, out: &mut Outbox<Self>) {
        match group.epoch().cmp(&self.group.epoch()) {
            _ if self.is_behind_epoch(group.epoch()) => {
                self.ask_state(from, View::first_of(group.epoch()), now, out);
            }
            Ordering::Equal if self.status == Status::Outside => {
                if self.group.contains(from) {
                    self.successors.insert(from);
                }
            }
            Ordering::Equal if self.group.contains(from) || !self.is_in_view() => {}
            _ => self.tell_group(from, out),
        }
    }

    /// Tells another of its group: who is a member tells that it has begun it, too.
    pub(crate) fn tell_group(&self, to: NodeId, out: &mut Outbox<Self>) {
        let is_member = self.group.members().contains(&self.me);
        if is_member && self.is_sure || !self.group.contains(self.me.node) {
            out.send(to, Message::Group(self.group.clone()));
        }
    }
}
