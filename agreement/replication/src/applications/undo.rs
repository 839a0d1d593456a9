//! What operations have changed, to be put back.

use crate::SequenceNumber;
use std::collections::{BTreeMap, VecDeque};

/// A map that remembers what was there before each operation that may be rolled back.
#[derive(Clone, Debug)]
pub(super) struct Undoable<K, V> {
    values: BTreeMap<K, V>,
    /// What was there, operation by operation, and change by change.
    before: VecDeque<(SequenceNumber, K, Option<V>)>,
    now: SequenceNumber,
}

impl<K: Ord + Clone, V: Clone> Undoable<K, V> {
    pub(super) const fn new(values: BTreeMap<K, V>, at: SequenceNumber) -> Self {
        Self { values, before: VecDeque::new(), now: at }
    }

    pub(super) const fn values(&self) -> &BTreeMap<K, V> {
        &self.values
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    /// What is set from now on is of this operation.
    pub(super) fn begin(&mut self, number: SequenceNumber) {
        self.now = number;
    }

    pub(super) fn set(&mut self, key: K, value: Option<V>) {
        let before = match value {
            Some(value) => self.values.insert(key.clone(), value),
            None => self.values.remove(&key),
        };
        self.before.push_back((self.now, key, before));
    }

    pub(super) fn rollback(&mut self, from: SequenceNumber) {
        while let Some((_, key, before)) = self.before.pop_back_if(|(number, ..)| *number >= from) {
            match before {
                Some(value) => drop(self.values.insert(key, value)),
                None => drop(self.values.remove(&key)),
            }
        }
    }

    pub(super) fn commit(&mut self, upto: SequenceNumber) {
        while self.before.pop_front_if(|(number, ..)| *number <= upto).is_some() {}
    }
}
