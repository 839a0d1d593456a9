//! How long things take.

use fulmar_node::Random;
use std::time::Duration;

/// A distribution of durations. Sampling uses integers only, so it is the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always so long.
    Fixed(Duration),
    /// Between two bounds, each value as likely as another.
    Uniform {
        /// The shortest.
        low: Duration,
        /// The longest.
        high: Duration,
    },
    /// Nearly log-normal, as networks and disks are: half of the samples are below the median, one in a hundred is
    /// above `p99`, and none is above some `median × (p99 / median)^1.54`.
    Tailed {
        /// Half of the samples are shorter.
        median: Duration,
        /// One sample in a hundred is longer. Not shorter than the median.
        p99: Duration,
    },
}

impl Delay {
    /// No time at all.
    pub const ZERO: Self = Self::Fixed(Duration::ZERO);

    /// One sample.
    pub fn sample(&self, random: &mut Random) -> Duration {
        match *self {
            Self::Fixed(duration) => duration,
            Self::Uniform { low, high } => {
                let (low, high) = (nanos(low), nanos(high));
                Duration::from_nanos(low + random.below(high.saturating_sub(low).saturating_add(1)))
            }
            Self::Tailed { median, p99 } => {
                let middle = i128::from(log2(nanos(median)));
                let spread = i128::from(log2(nanos(p99))) - middle;
                let exponent = middle + spread * i128::from(bell(random.next())) / i128::from(BELL_P99);
                Duration::from_nanos(exp2(u64::try_from(exponent).unwrap_or(0)))
            }
        }
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What one in a hundred values of [`bell`] exceeds: the sum of four uniform variables exceeds 4 − t with probability
/// t⁴/24, so t is 0.24^¼, and the sum is 1.30007 above its middle.
const BELL_P99: i64 = 85_201;

/// The sum of four uniform variables, about zero, in units of 2⁻¹⁶: close to normal, and bounded.
fn bell(bits: u64) -> i64 {
    let sum: u64 = (0..4).map(|piece| (bits >> (16 * piece)) & 0xffff).sum();
    sum.cast_signed() - 2 * 0xffff
}

/// The binary logarithm in units of 2⁻³², linear between powers of two; zero for zero.
fn log2(n: u64) -> u64 {
    let Some(whole) = n.checked_ilog2() else { return 0 };
    let fraction = (u128::from(n - (1 << whole)) << 32) >> whole;
    (u64::from(whole) << 32) | u64::try_from(fraction).unwrap_or(0)
}

/// The inverse of [`log2`].
fn exp2(exponent: u64) -> u64 {
    let whole = (exponent >> 32).min(63);
    let fraction = u128::from(exponent & 0xffff_ffff);
    u64::try_from((1_u128 << whole) + ((fraction << whole) >> 32)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_within_bounds() {
        let mut random = Random::new(1);
        let (low, high) = (Duration::from_nanos(10), Duration::from_nanos(12));
        let drawn: Vec<Duration> =
            (0..100).map(|_| Delay::Uniform { low, high }.sample(&mut random)).collect();
        assert!(drawn.iter().all(|d| (low..=high).contains(d)));
        assert!(drawn.contains(&low) && drawn.contains(&high));
        assert_eq!(Delay::Fixed(low).sample(&mut random), low);
        assert_eq!(Delay::Uniform { low: high, high: low }.sample(&mut random), high);
    }

    #[test]
    fn a_tail_has_its_median_and_its_percentile() {
        let mut random = Random::new(2);
        let (median, p99) = (Duration::from_micros(100), Duration::from_millis(3));
        let tailed = Delay::Tailed { median, p99 };
        let drawn: Vec<Duration> = (0..100_000).map(|_| tailed.sample(&mut random)).collect();
        let above = |bound| drawn.iter().filter(|&&d| d > bound).count();
        assert!((49_000..51_000).contains(&above(median)), "{}", above(median));
        assert!((900..1_100).contains(&above(p99)), "{}", above(p99));
        assert_eq!(above(Duration::from_millis(20)), 0);
    }

    #[test]
    fn logarithms_are_undone() {
        for n in [1, 2, 3, 1_000, 1_000_000, 123_456_789] {
            assert!(exp2(log2(n)).abs_diff(n) <= 1, "{n}");
        }
        assert_eq!(log2(0), 0);
        assert!(exp2(u64::MAX) > u64::MAX / 2);
    }
}
