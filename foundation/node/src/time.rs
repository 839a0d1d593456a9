//! The time that a process is told.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, in nanoseconds since an origin that the driver chose. Clocks of two processes need not agree, and only
/// differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than everything: some 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// So long after the origin.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How much later this is; zero if it is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The first moment after this that is a multiple of `interval` from the origin: what is done then by several is done at once.
    ///
    /// # Panics
    /// If `interval` is zero.
    #[must_use]
    pub fn next_multiple_of(self, interval: Duration) -> Self {
        let interval = nanos(interval);
        Self(self.0.saturating_add(interval - self.0 % interval))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for Time {
    /// Seconds with nine digits, so that traces line up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_ends_at_the_ends_of_time() {
        let second = Duration::from_secs(1);
        assert_eq!(Time::MAX + second, Time::MAX);
        assert_eq!(Time::ZERO - second, Time::ZERO);
        assert_eq!((Time::ZERO + second).since(Time::ZERO), second);
        assert_eq!(Time::ZERO.since(Time::ZERO + second), Duration::ZERO);
        assert_eq!((Time::ZERO + Duration::from_nanos(1_000_000_007)).to_string(), "1.000000007");
    }

    #[test]
    fn a_multiple_is_later_by_the_interval_at_most() {
        let five = Duration::from_nanos(5);
        for (now, next) in [(0, 5), (1, 5), (4, 5), (5, 10), (9, 10)] {
            assert_eq!(Time::from_nanos(now).next_multiple_of(five), Time::from_nanos(next));
        }
        assert_eq!(Time::MAX.next_multiple_of(five), Time::MAX);
    }
}
