//! A hash table for keys that are mostly not in it: to see that, few bytes are looked at, of which many fit into a near cache.
//!
//! Values are in buckets, and 16 bits of the hash of each, its tag, are in a place of their own: those of a bucket are half
//! a line of the cache, and compared all at once. What finds its bucket full goes to the next one that is not, and is counted
//! in each that it passes; where none has passed, nothing is to be looked for further on. So values do not move when another
//! is removed, and that leaves no trace.

use crate::hash::Hash;
use fulmar_packet::{fetch, ones};

/// How many values a bucket has.
const SLOTS: usize = 15;

/// Values by hashes; several may have the same.
#[derive(Clone)]
pub(crate) struct Table<V> {
    /// Of each bucket; their number is a power of two.
    tags: Vec<Tags>,
    /// Of each bucket; where a tag is not 0 there is a value.
    values: Vec<[Option<V>; SLOTS]>,
    /// Of these values; only looked at when they are given other buckets.
    hashes: Vec<[Hash; SLOTS]>,
    len: usize,
}

#[derive(Clone, Default)]
#[repr(align(32))]
struct Tags {
    /// Of the values of a bucket, or 0.
    of: [u16; SLOTS],
    /// How many values are further on because this bucket is, or was, full: few, as others cannot choose hashes.
    passed: u16,
}

/// Where in its bucket a value is if nothing else was there before it: what is there is fetched before tags tell.
#[inline]
fn first_slot(hash: Hash) -> usize {
    // By other bits than those that choose the bucket, unless there are very many.
    (hash >> 12) as usize % SLOTS
}

/// Not 0, which is none's.
fn tag(hash: Hash) -> u16 {
    ((hash >> 16) as u16).max(1)
}

impl Tags {
    /// Where this tag is, as bits; without a branch.
    #[inline]
    fn slots(&self, tag: u16) -> u32 {
        self.of.iter().enumerate().fold(0, |slots, (slot, other)| slots | u32::from(*other == tag) << slot)
    }
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self::of(1)
    }
}

impl<V> Table<V> {
    /// An empty one with so many buckets.
    fn of(buckets: usize) -> Self {
        Self {
            tags: vec![Tags::default(); buckets],
            values: std::iter::repeat_with(|| [const { None }; SLOTS]).take(buckets).collect(),
            hashes: vec![[0; SLOTS]; buckets],
            len: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.values.iter().flatten().flatten()
    }

    /// The buckets where a value may be, from the first.
    fn buckets(&self, hash: Hash) -> impl Iterator<Item = usize> + use<V> {
        let count = self.tags.len();
        (0..count).map(move |step| (hash as usize + step) & (count - 1))
    }

    #[inline]
    fn place(&self, hash: Hash, is_it: impl Fn(&V) -> bool) -> Option<(usize, usize)> {
        for bucket in self.buckets(hash) {
            let tags = &self.tags[bucket];
            let is_here = |slot: &usize| self.values[bucket][*slot].as_ref().is_some_and(&is_it);
            if let Some(slot) = ones(tags.slots(tag(hash)).into()).find(is_here) {
                return Some((bucket, slot));
            }
            if tags.passed == 0 {
                break;
            }
        }
        None
    }

    fn bucket(&self, hash: Hash) -> usize {
        hash as usize & (self.tags.len() - 1)
    }

    /// Has the tags for this hash come near.
    #[inline]
    pub(crate) fn fetch_tags(&self, hash: Hash) {
        fetch(&self.tags[self.bucket(hash)]);
    }

    /// Has the tags for this hash come near, and the value that is most likely to be the one: for who expects one.
    #[inline]
    pub(crate) fn fetch_both(&self, hash: Hash) {
        let bucket = self.bucket(hash);
        fetch(&self.tags[bucket]);
        fetch(&self.values[bucket][first_slot(hash)]);
    }

    /// Whether there is a value of this hash, or one of the same tag in its bucket; no value is looked at for that.
    #[inline]
    pub(crate) fn may_have(&self, hash: Hash) -> bool {
        for bucket in self.buckets(hash) {
            let tags = &self.tags[bucket];
            if tags.slots(tag(hash)) != 0 {
                return true;
            }
            if tags.passed == 0 {
                break;
            }
        }
        false
    }

    /// The value that `is_it`; it is asked of few others than those of this hash.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, is_it: impl Fn(&V) -> bool) -> Option<&V> {
        let (bucket, slot) = self.place(hash, is_it)?;
        self.values[bucket][slot].as_ref()
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, hash: Hash, is_it: impl Fn(&V) -> bool) -> Option<&mut V> {
        let (bucket, slot) = self.place(hash, is_it)?;
        self.values[bucket][slot].as_mut()
    }

    /// Takes in a value.
    pub(crate) fn insert(&mut self, hash: Hash, value: V) {
        // If they are fuller, more than one bucket in ten is passed.
        if 4 * (self.len + 1) > 3 * SLOTS * self.tags.len() {
            self.grow();
        }
        for bucket in self.buckets(hash) {
            let (values, first) = (&self.values[bucket], first_slot(hash));
            let free = |slot: &usize| values[*slot].is_none();
            if let Some(slot) = [first].into_iter().chain(0..SLOTS).find(free) {
                self.tags[bucket].of[slot] = tag(hash);
                self.hashes[bucket][slot] = hash;
                self.values[bucket][slot] = Some(value);
                self.len += 1;
                return;
            }
            self.tags[bucket].passed += 1;
        }
    }

    fn grow(&mut self) {
        let old = std::mem::replace(self, Self::of(2 * self.tags.len()));
        for (hash, value) in old.hashes.into_iter().flatten().zip(old.values.into_iter().flatten()) {
            if let Some(value) = value {
                self.insert(hash, value);
            }
        }
    }

    /// Removes the value that `is_it`, and answers it.
    pub(crate) fn remove(&mut self, hash: Hash, is_it: impl Fn(&V) -> bool) -> Option<V> {
        let (bucket, slot) = self.place(hash, is_it)?;
        for passed in self.buckets(hash).take_while(|passed| *passed != bucket) {
            self.tags[passed].passed -= 1;
        }
        self.tags[bucket].of[slot] = 0;
        self.len -= 1;
        self.values[bucket][slot].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    /// Beside a list: with hashes that many share, and removals, what is there is found, and nothing else.
    #[test]
    fn it_is_a_set() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut table, mut list) = (Table::default(), Vec::new());
            let (kinds, shift) = (1 + random.below(64), random.below(26));
            for number in 0..random.below(400) {
                if random.one_in(3) && !list.is_empty() {
                    let value: (Hash, u64) = list.swap_remove(random.index(list.len()));
                    assert_eq!(table.remove(value.0, |other| *other == value), Some(value));
                    assert_eq!(table.remove(value.0, |other| *other == value), None);
                } else {
                    let value = (u32::try_from(random.below(kinds) << shift).expect("32 bits"), number);
                    table.insert(value.0, value);
                    list.push(value);
                }
                for value in &list {
                    assert!(table.may_have(value.0), "seed {seed}");
                    assert_eq!(table.find(value.0, |other| other == value), Some(value), "seed {seed}");
                    assert_eq!(table.find(value.0, |_| false), None);
                }
                let (mut left, mut expected): (Vec<_>, _) = (table.iter().copied().collect(), list.clone());
                left.sort_unstable();
                expected.sort_unstable();
                assert_eq!(left, expected, "seed {seed}");
            }
            for value in list {
                table.remove(value.0, |other| *other == value);
            }
            assert!(table.is_empty() && table.tags.iter().all(|tags| tags.passed == 0), "seed {seed}");
        }
    }
}
