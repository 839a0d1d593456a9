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

    /// This key alone.
    pub fn point(key: &[u8]) -> Self {
        Self::new(key.into(), Some([key, &[0]].concat().into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All intervals whose ends are among a few keys, and keys beside those.
    fn intervals() -> (Vec<Interval>, Vec<Vec<u8>>) {
        let ends = [&b""[..], b"\0", b"a", b"a\0", b"b", b"\xff"];
        let highs = || ends.iter().map(|high| Some(Key::from(*high))).chain([None]);
        let all = ends.iter().flat_map(|low| highs().map(|high| Interval::new((*low).into(), high)));
        let keys =
            ends.iter().flat_map(|end| [end.to_vec(), [end, &b"\0"[..]].concat(), [end, &b"x"[..]].concat()]);
        (all.collect(), keys.collect())
    }

    #[test]
    fn intervals_are_sets_of_keys() {
        let (all, keys) = intervals();
        for a in &all {
            for key in &keys {
                let inside = a.low() <= &**key && a.high().is_none_or(|high| &**key < high);
                assert_eq!(a.contains(key), inside, "{a:?} {key:02x?}");
            }
            assert_eq!(a.is_empty(), !keys.iter().any(|key| a.contains(key)), "{a:?}");
            assert!(Interval::everything().covers(a));
            for b in &all {
                let both = a.intersection(b);
                assert!(keys.iter().all(|key| both.contains(key) == (a.contains(key) && b.contains(key))));
                assert!(both.is_empty() || (a.covers(&both) && b.covers(&both)));
                let holds_all = keys.iter().all(|key| a.contains(key) || !b.contains(key));
                assert!(b.is_empty() || a.covers(b) == holds_all, "{a:?} {b:?}");
            }
        }
    }
}
