//! A timestamp server: numbers that only grow, as transactions need them.

use super::undo::Undoable;
use crate::{SequenceNumber, StateMachine};
use fulmar_transport::coding::{Reader, put_varint};
use std::collections::BTreeMap;

/// Gives each number once, and later ones are larger. An operation is how many numbers are wanted ([`Timestamps::take`]); its
/// result the first of them ([`Timestamps::first`]). A query answers the last that was given. Whoever wants more than
/// [`Timestamps::MOST`] gets none, or one operation could leave no number for the next.
#[derive(Clone, Debug)]
pub struct Timestamps(Undoable<(), u64>);

impl Default for Timestamps {
    fn default() -> Self {
        Self(Undoable::new(BTreeMap::new(), SequenceNumber(0)))
    }
}

impl Timestamps {
    /// An operation takes no more numbers.
    pub const MOST: u64 = 1 << 24;

    /// The operation that takes so many numbers.
    #[must_use]
    pub fn take(count: u64) -> Vec<u8> {
        let mut operation = Vec::new();
        put_varint(&mut operation, count);
        operation
    }

    /// The first of the numbers that an operation has taken, or the last that a query has found; nothing, if these bytes are no
    /// result.
    #[must_use]
    pub fn first(result: &[u8]) -> Option<u64> {
        Reader::new(result).varint()
    }

    fn last(&self) -> u64 {
        self.0.get(&()).copied().unwrap_or_default()
    }
}

impl StateMachine for Timestamps {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        let last = self.last();
        self.0.begin(number);
        let Some(count) = Reader::new(operation).varint().filter(|count| *count <= Self::MOST) else {
            return Vec::new();
        };
        self.0.set((), Some(last.saturating_add(count)));
        Self::take(last.saturating_add(1))
    }

    fn rollback(&mut self, from: SequenceNumber) {
        self.0.rollback(from);
    }

    fn commit(&mut self, upto: SequenceNumber) {
        self.0.commit(upto);
    }

    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        Self::take(self.last())
    }

    fn snapshot(&self) -> Vec<u8> {
        Self::take(self.last())
    }

    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) {
        let last = Self::first(snapshot).unwrap_or_default();
        self.0 = Undoable::new(BTreeMap::from([((), last)]), at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_given_back() {
        let at = SequenceNumber;
        let mut server = Timestamps::default();
        let take = |server: &mut Timestamps, number, count| {
            Timestamps::first(&server.execute(at(number), &Timestamps::take(count)))
        };
        assert_eq!(take(&mut server, 1, 5), Some(1));
        assert_eq!(take(&mut server, 2, 1), Some(6));
        server.commit(at(1));
        assert_eq!(take(&mut server, 3, 10), Some(7));
        server.rollback(at(2));
        assert_eq!(Timestamps::first(&server.query(&[])), Some(5));
        assert_eq!(take(&mut server, 2, 1), Some(6));
        let mut other = Timestamps::default();
        other.restore(at(2), &server.snapshot());
        assert_eq!(take(&mut other, 3, 1), Some(7));
        // What is no operation takes nothing, nor does who wants all that there are.
        assert_eq!(Timestamps::first(&other.execute(at(4), &[0x80])), None);
        assert_eq!(take(&mut other, 5, u64::MAX), None);
        assert_eq!(take(&mut other, 6, Timestamps::MOST), Some(8));
        assert_eq!(take(&mut other, 7, 1), Some(8 + Timestamps::MOST));
    }
}
