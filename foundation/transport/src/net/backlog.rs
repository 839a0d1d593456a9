//! What waits to be sent to clients that do not read, in all.

use super::LARGE;
use std::collections::BTreeMap;

/// How much waits to be sent, by connection, as far as it is [`LARGE`].
#[derive(Debug, Default)]
pub(super) struct Backlog {
    of: BTreeMap<u64, usize>,
    sum: usize,
}

impl Backlog {
    /// A connection has so many bytes unsent.
    pub(super) fn note(&mut self, key: u64, unsent: usize) {
        let before = if unsent < LARGE { self.of.remove(&key) } else { self.of.insert(key, unsent) };
        let now = if unsent < LARGE { 0 } else { unsent };
        self.sum = self.sum - before.unwrap_or_default() + now;
    }

    /// A connection is no more.
    pub(super) fn forget(&mut self, key: u64) {
        self.note(key, 0);
    }

    pub(super) const fn sum(&self) -> usize {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_added_up() {
        let mut backlog = Backlog::default();
        for (key, unsent, sum) in
            [(1, LARGE, LARGE), (2, 2 * LARGE, 3 * LARGE), (1, 5, 2 * LARGE), (2, 3 * LARGE, 3 * LARGE)]
        {
            backlog.note(key, unsent);
            assert_eq!(backlog.sum(), sum);
        }
        backlog.forget(1);
        backlog.forget(2);
        assert_eq!(backlog.sum(), 0);
    }
}
