//! What must hold of a replica after every step.

use crate::{ClientId, Protocol, Replica, SequenceNumber, StateMachine};

impl<S: StateMachine> Replica<S> {
    /// Of [`Replica`]'s invariants what is compared in no time.
    fn cheap_invariants(&self) -> [(bool, &'static str); 8] {
        let (start, last, executed) = (self.log.start(), self.log.last(), self.execution.executed());
        let is_normal = self.is_in_view();
        let may_speculate = self.group.protocol() == Protocol::Speculative;
        [
            (start <= self.checkpoint.at, "the log begins after the checkpoint"),
            (self.checkpoint.at <= self.committed, "the checkpoint is of the future"),
            (executed <= self.committed || may_speculate, "what is executed is not committed"),
            (executed <= last, "what is executed is not in the log"),
            (!is_normal || self.committed <= last, "what is committed is not in the log"),
            (self.last_normal <= self.view, "the log is of a view to come"),
            (!is_normal || self.last_normal == self.view, "the log is of another view"),
            (self.view.epoch == self.group.epoch(), "the view is of another epoch"),
        ]
    }

    fn describe(&self, problem: &str) -> String {
        let (start, last, executed) = (self.log.start(), self.log.last(), self.execution.executed());
        format!("{}: {problem}: {start:?} {executed:?} {:?} {last:?}", self.me.node, self.committed)
    }

    /// Stops a replica that has come to a state that cannot be, after any step: whatever it did next could take back what it has promised.
    ///
    /// # Panics
    /// If one of the cheap invariants does not hold.
    pub(crate) fn assert_invariants(&self) {
        for (holds, what) in self.cheap_invariants() {
            assert!(holds, "{}", self.describe(what));
        }
    }

    /// The same before its log is cut off: what is committed is for ever.
    ///
    /// # Panics
    /// If something that is committed would go.
    pub(crate) fn assert_uncommitted_after(&self, last: SequenceNumber) {
        assert!(last >= self.committed, "{}", self.describe("what is committed is to be taken back"));
    }

    /// The same before it commits: others have what it would not execute.
    ///
    /// # Panics
    /// If its log does not go as far.
    pub(crate) fn assert_has(&self, upto: SequenceNumber) {
        assert!(
            upto <= self.log.last(),
            "{}: {upto:?}",
            self.describe("more is to be committed than its log has")
        );
    }

    /// What [`Replica`]'s invariants say of one replica alone, and does not hold.
    pub fn problems(&self) -> Vec<String> {
        let mut before_last = self.log.entries_after(self.log.start()).rev().skip(1);
        let is_last = !before_last.any(|entry| entry.client == ClientId::GROUP);
        let costly = [
            (self.uncommitted == self.uncommitted_bytes(), "what is not committed is counted wrong"),
            (self.group == self.checkpoint.group, "the group is not that of the checkpoint"),
            (is_last, "something comes after the end of an epoch"),
        ];
        let broken = self.cheap_invariants().into_iter().chain(costly).filter(|(holds, _)| !holds);
        broken.map(|(_, what)| self.describe(what)).collect()
    }
}
