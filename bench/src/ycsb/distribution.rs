//! Which record an operation goes to, as YCSB chooses it.
//!
//! The Zipfian generator is that of Gray and others, "Quickly generating billion-record synthetic databases" (SIGMOD
//! 1994), with YCSB's constants, so that a record is as popular here as there.

use fulmar_node::Random;

/// YCSB's skew: item `i` of `n` has a share of `1 / iᶿ`, divided by the sum over all.
const THETA: f64 = 0.99;
/// YCSB draws from so many items, and hashes them onto the records that there are…
const ITEMS: u64 = 10_000_000_000;
/// …so that the sum need not be found anew each time: `zeta(ITEMS)`.
const ZETA_ITEMS: f64 = 26.469_028_201_783_02;

/// How operations are spread over records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    /// All records alike.
    Uniform,
    /// A few records get most operations; which ones, a hash decides.
    Zipfian,
    /// As Zipfian, and the newest records are those.
    Latest,
}

impl Distribution {
    /// Its name, as it is given and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        }
    }
}

/// Chooses records.
pub(crate) enum Chooser {
    Uniform,
    Zipfian(Zipfian),
    Latest(Zipfian),
}

impl Chooser {
    pub(crate) fn new(distribution: Distribution, records: u64) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian => Self::Zipfian(Zipfian::with_zeta(ITEMS, ZETA_ITEMS)),
            Distribution::Latest => Self::Latest(Zipfian::new(records)),
        }
    }

    /// One of `0..records`, of which there may be more than before, but not fewer.
    pub(crate) fn choose(&mut self, random: &mut Random, records: u64) -> u64 {
        match self {
            Self::Uniform => random.below(records),
            Self::Zipfian(zipfian) => fnv(zipfian.next(random)) % records,
            Self::Latest(zipfian) => {
                zipfian.grow(records);
                (records - 1).saturating_sub(zipfian.next(random))
            }
        }
    }
}

/// Chooses `0` most often, then `1`, and so on.
pub(crate) struct Zipfian {
    items: u64,
    zeta: f64,
    /// What of the formula depends on the two above.
    eta: f64,
}

impl Zipfian {
    fn new(items: u64) -> Self {
        Self::with_zeta(items, zeta(0, items))
    }

    fn with_zeta(items: u64, zeta_items: f64) -> Self {
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(0, 2) / zeta_items);
        Self { items, zeta: zeta_items, eta }
    }

    fn grow(&mut self, items: u64) {
        if items > self.items {
            *self = Self::with_zeta(items, self.zeta + zeta(self.items, items));
        }
    }

    fn next(&self, random: &mut Random) -> u64 {
        let point = random.fraction();
        let scaled = point * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below the number of items, but for rounding")]
        let item = (self.items as f64 * (self.eta * (point - 1.0) + 1.0).powf(1.0 / (1.0 - THETA))) as u64;
        item.min(self.items - 1)
    }
}

/// The sum of `1 / iᶿ` for `i` from `from + 1` to `to`.
fn zeta(from: u64, to: u64) -> f64 {
    (from + 1..=to).map(|item| (item as f64).powf(THETA).recip()).sum()
}

/// FNV-1a of the number's bytes, the lowest first, as YCSB scatters items.
fn fnv(number: u64) -> u64 {
    let hash = number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // YCSB takes the magnitude of a signed number.
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 400_000;

    fn frequencies(records: u64, mut draw: impl FnMut(&mut Random) -> u64) -> Vec<f64> {
        let mut random = Random::new(1);
        let mut counts = vec![0_u32; usize::try_from(records).expect("few")];
        for _ in 0..DRAWS {
            counts[usize::try_from(draw(&mut random)).expect("few")] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
    }

    /// The method approximates all items but the first two.
    #[test]
    fn items_are_as_frequent_as_the_formula_says() {
        let zipfian = Zipfian::new(1_000);
        let found = frequencies(1_000, |random| zipfian.next(random));
        let share = |item: u32| f64::from(item + 1).powf(THETA).recip() / zeta(0, 1_000);
        for (item, found) in (0..2).zip(&found) {
            assert!((found - share(item)).abs() < 0.002, "item {item}: {found} instead of {}", share(item));
        }
        for (from, to) in [(2, 10), (10, 100), (100, 1_000)] {
            let expected: f64 = (from..to).map(share).sum();
            let found: f64 = found[from as usize..to as usize].iter().sum();
            assert!(
                (found / expected - 1.0).abs() < 0.1,
                "items {from}..{to}: {found} instead of {expected}"
            );
        }
    }

    #[test]
    fn the_sum_that_is_not_computed_is_right() {
        // Euler and Maclaurin: the first terms, then the integral and half a term at both ends.
        let (first, last) = (1_000_000_f64, ITEMS as f64);
        let term = |item: f64| item.powf(-THETA);
        let integral = (last.powf(1.0 - THETA) - first.powf(1.0 - THETA)) / (1.0 - THETA);
        let sum = zeta(0, 1_000_000) + integral + (term(last) - term(first)) / 2.0;
        assert!((sum - ZETA_ITEMS).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_generator_grows_into_a_new_one() {
        let mut grown = Zipfian::new(10);
        for items in [11, 100, 5_000] {
            grown.grow(items);
        }
        let made = Zipfian::new(5_000);
        assert!((grown.zeta - made.zeta).abs() < 1e-9 && (grown.eta - made.eta).abs() < 1e-9);
    }

    #[test]
    fn records_are_chosen_among_those_there_are() {
        for distribution in [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest] {
            let mut random = Random::new(2);
            let mut chooser = Chooser::new(distribution, 1);
            for records in 1..2_000 {
                assert!(chooser.choose(&mut random, records) < records);
            }
        }
    }

    #[test]
    fn popularity_is_where_it_belongs() {
        let mut latest = Chooser::new(Distribution::Latest, 100);
        let found = frequencies(100, |random| latest.choose(random, 100));
        assert!(found.iter().all(|share| *share <= found[99]));
        let mut scattered = Chooser::new(Distribution::Zipfian, 100);
        let found = frequencies(100, |random| scattered.choose(random, 100));
        let hottest = usize::try_from(fnv(0) % 100).expect("few");
        let share = ZETA_ITEMS.recip();
        // Others are hashed there, too.
        assert!(found[hottest] > share && found[hottest] < share + 0.05, "{}", found[hottest]);
        let mut uniform = Chooser::Uniform;
        let found = frequencies(100, |random| uniform.choose(random, 100));
        assert!(found.iter().all(|share| (share - 0.01).abs() < 0.001));
    }
}
