//! Viewstamped replication (Liskov and Cowling 2012, section 4.1): the leader appends what clients ask for to its log and sends it
//! to the backups.
//!
//! Requests are batched as PBFT does (Castro and Liskov 1999, section 6.2): while few messages are on their way all operations that
//! come at one time are sent together, otherwise they wait for one of those to be committed, and go with all that wait then.

use crate::{Entry, Protocol, Replica, StateMachine, Timer};
use fulmar_node::{NodeId, Outbox, Time};

impl<S: StateMachine> Replica<S> {
    /// As the leader: gives a client's operation its place.
    pub(crate) fn order(&mut self, from: NodeId, entry: Entry, now: Time, out: &mut Outbox<Self>) {
        // Who asks another in vain asks all the next time.
        if self.leads() && !self.knows(from, &entry, out) && self.has_room(&entry) {
            self.append(entry, Some(from), out);
            match self.options.batch {
                1 => self.send_prepares(out),
                _ => out.set_timer(Timer::Batch, now),
            }
            self.promise_log(now, out);
        }
    }

    /// Sends what is in the log, as far as there is room in the window.
    pub(crate) fn send_prepares(&mut self, out: &mut Outbox<Self>) {
        if self.group.protocol() != Protocol::Viewstamped || !self.is_sure {
            return;
        }
        while self.leading.underway.pop_front_if(|end| *end <= self.committed).is_some() {}
        // A backup that has asked for its state may hold what was never sent otherwise.
        self.leading.sent = self.leading.sent.max(self.committed);
        while self.leading.underway.len() < self.options.window && self.leading.sent < self.log.last() {
            let from = self.leading.sent.next();
            self.leading.sent = self.send_prepare(from, None, self.options.batch, out);
            self.leading.underway.push_back(self.leading.sent);
        }
    }
}
