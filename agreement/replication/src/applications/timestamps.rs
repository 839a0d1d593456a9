//! A timestamp server: numbers that only grow, as transactions need them.

use super::undo::Undoable;
use crate::{SequenceNumber, StateMachine};
use fulmar_coding::{Reader, put_varint};
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
    /// So many numbers there are.
    const LAST: u64 = 1 << 62;

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
        let count = Reader::new(operation).varint().filter(|count| *count <= Self::MOST);
        let Some(next) = count.map(|count| last + count).filter(|next| *next <= Self::LAST) else {
            return Vec::new();
        };
        self.0.set((), Some(next));
        Self::take(last + 1)
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

    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) -> bool {
        let mut input = Reader::new(snapshot);
        let last = input.varint().filter(|last| *last <= Self::LAST && input.is_empty());
        if let Some(last) = last {
            self.0 = Undoable::new(BTreeMap::from([((), last)]), at);
        }
        last.is_some()
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
        assert!(other.restore(at(2), &server.snapshot()));
        assert_eq!(take(&mut other, 3, 1), Some(7));
        // What is no operation takes nothing, nor does who wants all that there are.
        assert_eq!(Timestamps::first(&other.execute(at(4), &[0x80])), None);
        assert_eq!(take(&mut other, 5, u64::MAX), None);
        assert_eq!(take(&mut other, 6, Timestamps::MOST), Some(8));
        assert_eq!(take(&mut other, 7, 1), Some(8 + Timestamps::MOST));
        // What is no state is not taken for that of before any number was given.
        for no_state in [&[][..], &[0x80], &[1, 1], &Timestamps::take(Timestamps::LAST + 1)] {
            assert!(!other.restore(at(9), no_state), "{no_state:?}");
        }
        assert_eq!(take(&mut other, 8, 1), Some(9 + Timestamps::MOST));
        // A number is not given twice, if there are no more.
        assert!(other.restore(at(9), &Timestamps::take(Timestamps::LAST - 1)));
        assert_eq!((take(&mut other, 10, 2), take(&mut other, 11, 1)), (None, Some(Timestamps::LAST)));
        assert_eq!(take(&mut other, 12, 1), None);
    }
}
