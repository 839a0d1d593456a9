//! The one source of chance: a seed gives the same sequence on every machine, for ever.

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and a mixing function per number.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A sequence that depends on `seed` alone.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A generator of its own, whose sequence shares nothing with what this one goes on to give.
    pub const fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number in `0..bound`; zero when `bound` is zero. The bias is below `bound / 2⁶⁴`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// An index of something of this length; zero when it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// A number in `low..=high`; `low` when there is none.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low).cast_unsigned().saturating_add(1);
        if high < low { low } else { low.wrapping_add_unsigned(self.below(span)) }
    }

    /// True once in `n` times; always when `n` is 0 or 1.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number in `0.0..1.0`, with 53 random bits.
    pub const fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub const fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.index(choices.len())]
    }

    /// One of `items`, or nothing when there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = self.index(items.len());
        items.get(index)
    }

    /// The index of one of `weights`, each as likely as it is heavy.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
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
        assert_eq!(random.between(i64::MIN, i64::MIN), i64::MIN);
        random.between(i64::MIN, i64::MAX);
    }

    #[test]
    fn fractions_are_spread() {
        let mut random = Random::new(2);
        let halves = (0..1000).filter(|_| random.happens(0.5)).count();
        assert!((400..600).contains(&halves), "{halves}");
        assert!(!random.happens(0.0) && random.happens(1.0));
    }
}
