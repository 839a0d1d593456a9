//! How much there is of something at each connection, and in all.

use std::collections::BTreeMap;

/// Bytes by connection, and their sum.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    of: BTreeMap<u64, usize>,
    sum: usize,
}

impl Sizes {
    /// Sets how much a connection has; answers what it had.
    pub(super) fn set(&mut self, key: u64, bytes: usize) -> usize {
        let before = if bytes == 0 { self.of.remove(&key) } else { self.of.insert(key, bytes) };
        let before = before.unwrap_or_default();
        self.sum = self.sum - before + bytes;
        before
    }

    pub(super) fn get(&self, key: u64) -> usize {
        self.of.get(&key).copied().unwrap_or_default()
    }

    pub(super) const fn sum(&self) -> usize {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_all() {
        let mut sizes = Sizes::default();
        for (key, bytes, before, sum) in
            [(1, 5, 0, 5), (2, 10, 0, 15), (1, 0, 5, 10), (2, 30, 10, 30), (3, 0, 0, 30)]
        {
            assert_eq!(sizes.set(key, bytes), before);
            assert_eq!((sizes.get(key), sizes.sum()), (bytes, sum));
        }
        sizes.set(2, 0);
        assert_eq!(sizes.sum(), 0);
    }
}
