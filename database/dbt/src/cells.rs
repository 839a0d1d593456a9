//! The cells that a transaction has changed in one tree.

use fulmar_kv::{Change, Key};
use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound;
use std::sync::Arc;

/// `None`: deleted.
pub(crate) type Value = Option<Arc<[u8]>>;

/// New values by key. Keys that come in ascending order, as they do when a table is filled, are appended to a run: no
/// search, and at the end nothing to sort.
#[derive(Clone, Default)]
pub(crate) struct Cells {
    /// Ascending.
    run: Vec<Change>,
    /// Keys that are not in the run.
    rest: BTreeMap<Key, Value>,
}

impl Cells {
    pub(crate) fn is_empty(&self) -> bool {
        self.run.is_empty() && self.rest.is_empty()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Value> {
        match self.place(key) {
            Ok(place) => Some(&self.run[place].value),
            Err(_) => self.rest.get(key),
        }
    }

    /// Sets the value of `key`, and gives the one that it replaces.
    pub(crate) fn insert(&mut self, key: Key, value: Value) -> Option<Value> {
        match self.place(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.run[place].value, value)),
            Err(place) if place == self.run.len() && self.is_after_rest(&key) => {
                self.run.push(Change { key, value });
                None
            }
            Err(_) => self.rest.insert(key, value),
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) {
        match self.place(key) {
            Ok(place) => drop(self.run.remove(place)),
            Err(_) => drop(self.rest.remove(key)),
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        self.run.retain(|change| keep(&change.key));
        self.rest.retain(|key, _| keep(key));
    }

    /// What lies from a bound on.
    pub(crate) fn ascending<'c>(
        &'c self,
        from: Bound<&'c [u8]>,
    ) -> impl Iterator<Item = (&'c [u8], &'c Value)> {
        let start = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.place(key).unwrap_or_else(|place| place),
            Bound::Excluded(key) => self.place(key).map_or_else(|place| place, |place| place + 1),
        };
        let run = self.run[start..].iter().map(|change| (&*change.key, &change.value));
        let rest = self.rest.range::<[u8], _>((from, Bound::Unbounded)).map(|(key, value)| (&**key, value));
        let (mut run, mut rest) = (run.peekable(), rest.peekable());
        iter::from_fn(move || match (run.peek(), rest.peek()) {
            (Some((a, _)), Some((b, _))) if b < a => rest.next(),
            (Some(_), _) => run.next(),
            (None, _) => rest.next(),
        })
    }

    /// What lies up to a bound, backwards.
    pub(crate) fn descending<'c>(
        &'c self,
        to: Bound<&'c [u8]>,
    ) -> impl Iterator<Item = (&'c [u8], &'c Value)> {
        let end = match to {
            Bound::Unbounded => self.run.len(),
            Bound::Included(key) => self.place(key).map_or_else(|place| place, |place| place + 1),
            Bound::Excluded(key) => self.place(key).unwrap_or_else(|place| place),
        };
        let run = self.run[..end].iter().rev().map(|change| (&*change.key, &change.value));
        let rest = self.rest.range::<[u8], _>((Bound::Unbounded, to)).rev();
        let rest = rest.map(|(key, value)| (&**key, value));
        let (mut run, mut rest) = (run.peekable(), rest.peekable());
        iter::from_fn(move || match (run.peek(), rest.peek()) {
            (Some((a, _)), Some((b, _))) if b > a => rest.next(),
            (Some(_), _) => run.next(),
            (None, _) => rest.next(),
        })
    }

    /// All of them in ascending order.
    pub(crate) fn into_changes(self) -> Vec<Change> {
        if self.rest.is_empty() {
            return self.run;
        }
        let rest = self.rest.into_iter().map(|(key, value)| Change { key, value });
        if self.run.is_empty() {
            return rest.collect();
        }
        let mut all = self.run;
        all.extend(rest);
        // Two ascending runs, which this sort merges.
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    /// The place of `key` in the run, or where it would be.
    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        match self.run.last() {
            Some(last) if *last.key >= *key => self.run.binary_search_by(|change| (*change.key).cmp(key)),
            _ => Err(self.run.len()),
        }
    }

    fn is_after_rest(&self, key: &Key) -> bool {
        self.rest.last_key_value().is_none_or(|(last, _)| last < key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that looks random, and follows from `seed`.
    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn cells_are_what_a_map_is() {
        for mut seed in 0..100 {
            let mut cells = Cells::default();
            let mut model: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
            let ascending = seed % 3;
            for step in 0..200_u64 {
                // A run that is interrupted now and then, or none.
                let n = if next(&mut seed) % 4 < ascending { step } else { next(&mut seed) % 200 };
                let key = n.to_be_bytes().to_vec();
                let value: Value =
                    (!next(&mut seed).is_multiple_of(5)).then(|| Arc::from(step.to_be_bytes()));
                match next(&mut seed) % 20 {
                    0 => {
                        cells.remove(&key);
                        model.remove(&key);
                    }
                    1 => {
                        let limit = key.clone();
                        let width = next(&mut seed) % 20;
                        let end = (n + width).to_be_bytes();
                        cells.retain(|key| key < &*limit || key > &end[..]);
                        model.retain(|key, _| *key < limit || key[..] > end[..]);
                    }
                    _ => {
                        let before = cells.insert(key.as_slice().into(), value.clone());
                        assert_eq!(before, model.insert(key.clone(), value));
                    }
                }
                assert_eq!(cells.get(&key), model.get(&key));
                assert_eq!(cells.is_empty(), model.is_empty());
                for bound in [Bound::Unbounded, Bound::Included(&*key), Bound::Excluded(&*key)] {
                    let found = cells.ascending(bound).map(|(key, value)| (key.to_vec(), value.clone()));
                    let expected = model.range::<[u8], _>((bound, Bound::Unbounded));
                    assert!(found.eq(expected.map(|(key, value)| (key.clone(), value.clone()))));
                    let found = cells.descending(bound).map(|(key, value)| (key.to_vec(), value.clone()));
                    let expected = model.range::<[u8], _>((Bound::Unbounded, bound)).rev();
                    assert!(found.eq(expected.map(|(key, value)| (key.clone(), value.clone()))));
                }
            }
            let changes = cells.into_changes().into_iter().map(|change| (change.key.to_vec(), change.value));
            assert!(changes.eq(model));
        }
    }
}
