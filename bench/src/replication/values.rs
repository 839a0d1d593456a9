//! What is replicated where protocols are measured: values of 64 bytes, put under keys.

use fulmar_node::Random;
use fulmar_replication::{Operation, SequenceNumber, StateMachine};
use std::collections::{HashMap, VecDeque};

/// As many as there are of different keys.
const KEYS: u64 = 10_000;
const VALUE: usize = 64;

type Key = [u8; 8];

/// Values by key.
#[derive(Default)]
pub(super) struct Values {
    values: HashMap<Key, Box<[u8]>>,
    replaced: VecDeque<Replaced>,
}

/// What an operation that may be rolled back has replaced.
struct Replaced {
    by: SequenceNumber,
    key: Key,
    value: Option<Box<[u8]>>,
}

impl StateMachine for Values {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        if let Some((key, value)) = operation.split_first_chunk() {
            let before = self.values.insert(*key, value.into());
            self.replaced.push_back(Replaced { by: number, key: *key, value: before });
        }
        Vec::new()
    }

    fn rollback(&mut self, from: SequenceNumber) {
        while let Some(Replaced { key, value, .. }) = self.replaced.pop_back_if(|last| last.by >= from) {
            match value {
                Some(value) => self.values.insert(key, value),
                None => self.values.remove(&key),
            };
        }
    }

    fn commit(&mut self, upto: SequenceNumber) {
        while self.replaced.pop_front_if(|first| first.by <= upto).is_some() {}
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let key: Option<Key> = operation.try_into().ok();
        key.and_then(|key| self.values.get(&key)).map_or_else(Vec::new, |value| value.to_vec())
    }

    fn snapshot(&self) -> Vec<u8> {
        self.values.iter().flat_map(|(key, value)| key.iter().chain(value).copied()).collect()
    }

    fn restore(&mut self, _at: SequenceNumber, snapshot: &[u8]) -> bool {
        let (pairs, rest) = snapshot.as_chunks::<{ 8 + VALUE }>();
        if !rest.is_empty() {
            return false;
        }
        let pairs = pairs.iter().filter_map(|pair| pair.split_first_chunk());
        self.values = pairs.map(|(key, value)| (*key, value.into())).collect();
        self.replaced.clear();
        true
    }
}

/// Puts a value under any of the keys.
pub(super) fn operation(random: &mut Random) -> Operation {
    let mut operation = [0; 8 + VALUE];
    operation[..8].copy_from_slice(&random.below(KEYS).to_be_bytes());
    operation.as_slice().into()
}
