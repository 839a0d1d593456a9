//! What is replicated.

use crate::SequenceNumber;
use std::time::Duration;

/// A deterministic service: of the same operations in the same order come the same results and the same state.
pub trait StateMachine {
    /// Carries out the operation with this sequence number, which is above that of the last.
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8>;

    /// Undoes the operations from this one on, which were the last to be executed; none of them is committed.
    fn rollback(&mut self, from: SequenceNumber);

    /// Nothing up to this operation will be rolled back any more.
    fn commit(&mut self, upto: SequenceNumber);

    /// Answers an operation that changes nothing.
    fn query(&self, operation: &[u8]) -> Vec<u8>;

    /// Whether a checkpoint may be taken of what is committed. If not, that is asked again after the next commit. A group that ends
    /// takes one in any case: whatever is under way in it ends with it.
    fn may_checkpoint(&self) -> bool {
        true
    }

    /// The state. Called when everything executed is committed.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes over a state of which another replica has made the snapshot, after the operation `at`. Whether it is one: bytes that are
    /// no state change nothing.
    #[must_use]
    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) -> bool;

    /// How long after another that says that time has passed a replica takes an operation, if this says so; if it comes earlier its
    /// client has to ask again. Zero, if it says nothing of time; and
    /// [`Duration::MAX`], if it is not to be taken at all.
    fn interval(&self, _operation: &[u8]) -> Duration {
        Duration::ZERO
    }
}
