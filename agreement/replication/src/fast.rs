//! Fast Paxos (Lamport 2006): clients ask all replicas; each appends what it gets to its log and tells the leader, who commits
//! what a superquorum has in the same place. Where they differ, or a message was lost, the leader imposes its own log: what it
//! has given a place needs f + 1 only.
//!
//! Rounds are views here, and the fast and the classic ones share a number: a place that the leader has given weighs more than
//! one that was found. Only the leader learns what was found, so it may overrule what it has not learned.

use crate::Record;
use crate::{Entry, Protocol, Replica, StateMachine};
use fulmar_node::{NodeId, Outbox, Time};

impl<S: StateMachine> Replica<S> {
    /// Appends what a client asks for where it comes.
    pub(crate) fn find_place(&mut self, from: NodeId, entry: Entry, now: Time, out: &mut Outbox<Self>) {
        if self.knows(from, &entry, out) || !self.has_room(&entry) {
            return;
        }
        self.append(entry, Some(from), out);
        self.promise_log(now, out);
        self.impose_at_once(now, out);
    }

    /// Whether a leader may give places without a view change. Under Speculative Paxos clients learn what was found, too: so only where
    /// nothing can be found without the leader.
    pub(crate) fn may_impose(&self) -> bool {
        self.group.protocol() != Protocol::Speculative
            || self.group.superquorum() == self.group.members().len()
    }

    /// As the leader: gives what has come a place, if it was in vain to wait until a superquorum has found one.
    pub(crate) fn impose_at_once(&mut self, now: Time, out: &mut Outbox<Self>) {
        if self.leads() && self.leading.imposes {
            self.impose(now, out);
        }
    }

    /// As the leader: gives all that has come since it last did so, and is not committed, the place that it has in the leader's log.
    pub(crate) fn impose(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.leading.sent = self.leading.sent.max(self.committed);
        if !self.is_sure || self.leading.sent >= self.log.last() {
            return;
        }
        while self.leading.sent < self.log.last() {
            self.leading.sent = self.send_prepare(self.leading.sent.next(), None, usize::MAX, out);
        }
        self.ordered = self.log.last();
        self.record(Record::Ordered(self.ordered), out);
        self.promise_log(now, out);
    }
}
