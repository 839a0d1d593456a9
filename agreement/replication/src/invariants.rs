//! What must hold of a replica after every step.

use crate::{ClientId, Protocol, Replica, StateMachine};

impl<S: StateMachine> Replica<S> {
    /// What [`Replica`]'s invariants say of one replica alone, and does not hold.
    pub fn problems(&self) -> Vec<String> {
        let (start, last, executed) = (self.log.start(), self.log.last(), self.execution.executed());
        let mut problems = Vec::new();
        let mut require = |holds: bool, what: &str| {
            if !holds {
                problems.push(format!(
                    "{}: {what}: {start:?} {executed:?} {:?} {last:?}",
                    self.me.node, self.committed
                ));
            }
        };
        require(start <= self.checkpoint.at, "the log begins after the checkpoint");
        require(self.checkpoint.at <= self.committed, "the checkpoint is of the future");
        let is_normal = self.is_in_view();
        let may_speculate = self.group.protocol() == Protocol::Speculative;
        require(executed <= self.committed || may_speculate, "what is executed is not committed");
        require(executed <= last, "what is executed is not in the log");
        require(!is_normal || self.committed <= last, "what is committed is not in the log");
        require(self.last_normal <= self.view, "the log is of a view to come");
        require(!is_normal || self.last_normal == self.view, "the log is of another view");
        require(self.uncommitted == self.uncommitted_bytes(), "what is not committed is counted wrong");
        require(self.group == self.checkpoint.group, "the group is not that of the checkpoint");
        require(self.view.epoch == self.group.epoch(), "the view is of another epoch");
        let mut before_last = self.log.entries_after(start).rev().skip(1);
        let is_last = !before_last.any(|entry| entry.client == ClientId::GROUP);
        require(is_last, "something comes after the end of an epoch");
        problems
    }
}
