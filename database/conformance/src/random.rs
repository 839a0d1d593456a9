//! The one source of chance in these tests: a seed gives the same sequence on every machine, for ever.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and a mixing function per number.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A sequence that depends on `seed` alone.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; zero when `bound` is zero.
    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is smaller than a usize")]
        let number = (self.next() % bound as u64) as usize;
        number
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = usize::try_from(high - low + 1).unwrap_or(0);
        low + i64::try_from(self.below(span)).unwrap_or(0)
    }

    /// True once in `n` times.
    pub(crate) const fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When `choices` is empty.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// One of `items`, or nothing when there are none.
    pub(crate) fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = self.below(items.len());
        items.get(index)
    }

    /// The index of one of `weights`, each as likely as it is heavy.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut point = self.below(weights.iter().sum());
        for (index, &weight) in weights.iter().enumerate() {
            if point < weight {
                return index;
            }
            point -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_one_sequence() {
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn between_reaches_both_ends_and_no_further() {
        let mut random = Random::new(1);
        let drawn: Vec<i64> = (0..200).map(|_| random.between(-1, 1)).collect();
        assert!([-1, 0, 1].iter().all(|n| drawn.contains(n)));
        assert!(drawn.iter().all(|n| (-1..=1).contains(n)));
    }
}
