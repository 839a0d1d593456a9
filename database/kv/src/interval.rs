//! Intervals of keys.

use crate::Key;
use std::fmt;

/// The keys from `low` on and below `high`, if it is given.
#[derive(Clone, PartialEq, Eq)]
pub struct Interval {
    low: Key,
    high: Option<Key>,
}

impl Interval {
    /// The keys from `low` on and below `high`.
    pub fn new(low: Key, high: Option<Key>) -> Self {
        Self { low, high }
    }

    /// All keys.
    pub fn everything() -> Self {
        Self { low: [].into(), high: None }
    }

    /// The first key that may be in it.
    pub fn low(&self) -> &[u8] {
        &self.low
    }

    /// The first key after all that may be in it.
    pub fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }

    /// Whether `key` is in it.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        &*self.low <= key && self.high.as_ref().is_none_or(|high| key < &**high)
    }

    /// Whether all of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        let below = match (&self.high, &other.high) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(others)) => others <= mine,
        };
        self.low <= other.low && below
    }

    /// The keys that both have.
    pub fn intersection(&self, other: &Self) -> Self {
        let high = match (&self.high, &other.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.as_ref().or(b.as_ref()),
        };
        Self { low: (&self.low).max(&other.low).clone(), high: high.cloned() }
    }

    /// Whether no key is in it.
    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| high <= &self.low)
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:02x?}, ", self.low)?;
        match &self.high {
            Some(high) => write!(f, "{high:02x?})"),
            None => write!(f, "∞)"),
        }
    }
}
