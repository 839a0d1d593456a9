//! Speculative Paxos (Ports and others 2015): clients ask all replicas, by a multicast that mostly arrives in the same order
//! everywhere; each executes at once what it gets and answers; a client that has the same answer from a superquorum is done.
//!
//! The leader asks now and then whether all are in the same state, and commits what a superquorum has (section 4.2.3). Where they
//! differ a view change reconciles them (section 4.2.4): what is to be undone is undone, and what f + 1 hold of the log with which
//! the view begins is committed.

#[cfg(test)]
use crate::group::Defect;
use crate::{Entry, Message, Protocol, Replica, SequenceNumber, StateMachine, View};
use fulmar_node::{NodeId, Outbox, Time};

impl<S: StateMachine> Replica<S> {
    /// Appends what a client asks for, and executes it (section 4.2.2).
    pub(crate) fn speculate(&mut self, from: NodeId, entry: Entry, now: Time, out: &mut Outbox<Self>) {
        if self.knows(from, &entry, out) {
            return self.reply_speculatively(from, &entry, out);
        }
        if !self.has_room(&entry) {
            return;
        }
        self.append(entry, Some(from), out);
        self.execute_speculatively();
        #[cfg(test)]
        if self.group.has(Defect::AnswersEarly)
            && let Some(entry) = self.log.get(self.log.last())
        {
            self.reply_speculatively(from, entry, out);
        }
        self.promise_log(now, out);
        if self.leads() && self.log.last().0 >= self.leading.synchronized.0 + self.options.synchronize {
            self.leading.synchronized = self.log.last();
            self.tell_backups(out);
        }
        self.impose_at_once(now, out);
    }

    /// Executes what is in the log.
    pub(crate) fn execute_speculatively(&mut self) {
        if self.group.protocol() != Protocol::Speculative {
            return;
        }
        while let Some(entry) = self.log.get(self.execution.executed().next()) {
            self.execution.execute(entry);
        }
    }

    /// Answers the clients of what has become stable since.
    pub(crate) fn reply_since(&self, since: SequenceNumber, out: &mut Outbox<Self>) {
        for number in (since.0.max(self.committed.0) + 1..=self.stable.0).map(SequenceNumber) {
            let Some(entry) = self.log.get(number) else { continue };
            let asked = self.asked.get(&entry.client).filter(|asked| asked.number == entry.number);
            if let Some(client) = asked.and_then(|asked| asked.by) {
                self.reply_speculatively(client, entry, out);
            }
        }
    }

    /// Answers a client what comes of its request, if that is stable, but not committed.
    fn reply_speculatively(&self, to: NodeId, entry: &Entry, out: &mut Outbox<Self>) {
        let stable = self.stable;
        #[cfg(test)]
        let stable = if self.group.has(Defect::AnswersEarly) { self.log.last() } else { stable };
        let speculated = self.committed.next()..=stable;
        let Some(answered) = self.execution.result_of(entry) else { return };
        if let Some(summary) = self.log.summary(answered.at).filter(|_| speculated.contains(&answered.at)) {
            let (view, client, number, at) = (self.view, entry.client, entry.number, answered.at);
            let result = answered.result.clone();
            out.send(to, Message::SpeculativeReply { view, client, number, at, summary, result });
        }
    }

    /// A client doubts that the replicas of this view are in the same state. Its leader sees to it, if there is one.
    pub(crate) fn doubt(&mut self, view: View, now: Time, out: &mut Outbox<Self>) {
        if !self.leads() || view != self.view || !self.is_sure {
            return;
        }
        if self.may_impose() {
            self.impose(now, out);
        } else if now >= self.doubted_until {
            // Whatever clients say, and however often, replicas have time for each other.
            self.doubted_until = now + self.options.heartbeat;
            self.leave_for(view.after(1), now, out);
        }
    }
}
