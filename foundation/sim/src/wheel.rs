//! The scheduler: a hierarchical timing wheel.
//!
//! A time is eleven digits of six bits. An entry lies at the level of the highest digit in which its time differs from
//! the wheel's, in the slot which that digit names: what is due within 64 ns at level 0, within 4 µs at level 1, and so
//! on. When the wheel's time enters a slot of a higher level, the slot's entries move down, each at most once a level.
//! So an insertion, a removal and a pop cost a few list operations, however many entries there are.
//!
//! Entries of one time leave in the order in which they came: the earlier ones have moved down, in their order, before
//! a later one can be inserted below.

use fulmar_node::Time;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;

/// Names an entry as long as it is in the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// An entry is in exactly one list: that of its slot, or, without a value, that of the free entries.
struct Entry<T> {
    time: u64,
    previous: u32,
    next: u32,
    generation: u32,
    value: Option<T>,
}

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

pub(crate) struct Wheel<T> {
    /// No entry is due before it.
    now: u64,
    /// A bit for each level that has an entry.
    levels: u32,
    /// For each level, a bit for each slot that has an entry.
    occupied: [u64; LEVELS],
    slots: Vec<[List; SLOTS]>,
    entries: Vec<Entry<T>>,
    /// The first free entry; they are linked by `next`.
    free: u32,
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            now: 0,
            levels: 0,
            occupied: [0; LEVELS],
            slots: vec![[EMPTY; SLOTS]; LEVELS],
            entries: Vec::new(),
            free: NONE,
        }
    }

    /// Lets `value` leave at `time`, or next when that has passed.
    pub(crate) fn insert(&mut self, time: Time, value: T) -> Key {
        let time = time.as_nanos().max(self.now);
        let index = if self.free == NONE {
            let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 things are going on");
            self.entries.push(Entry { time, previous: NONE, next: NONE, generation: 0, value: Some(value) });
            index
        } else {
            let index = self.free;
            let entry = &mut self.entries[index as usize];
            self.free = entry.next;
            entry.time = time;
            entry.value = Some(value);
            index
        };
        self.link(index);
        Key { index, generation: self.entries[index as usize].generation }
    }

    /// Takes an entry out, if it is still there.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get(key.index as usize)?;
        if entry.generation != key.generation || entry.value.is_none() {
            return None;
        }
        let (previous, next) = (entry.previous, entry.next);
        let (level, slot) = self.place(entry.time);
        let list = &mut self.slots[level][slot];
        if previous == NONE {
            list.first = next;
        } else {
            self.entries[previous as usize].next = next;
        }
        if next == NONE {
            list.last = previous;
        } else {
            self.entries[next as usize].previous = previous;
        }
        if list.first == NONE {
            self.vacate(level, slot);
        }
        self.release(key.index)
    }

    /// The next entry that is due by `limit`. The wheel's time does not pass `limit`.
    pub(crate) fn pop(&mut self, limit: Time) -> Option<(Time, T)> {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros();
            let slot = self.occupied[level as usize].trailing_zeros();
            let shift = level * BITS;
            let above = self.now.checked_shr(shift + BITS).unwrap_or(0);
            let start = above.checked_shl(shift + BITS).unwrap_or(0) | (u64::from(slot) << shift);
            if start > limit.as_nanos() {
                return None;
            }
            let (level, slot) = (level as usize, slot as usize);
            self.now = start;
            if level == 0 {
                let index = self.slots[0][slot].first;
                let next = self.entries[index as usize].next;
                if next == NONE {
                    self.vacate(0, slot);
                } else {
                    self.slots[0][slot].first = next;
                    self.entries[next as usize].previous = NONE;
                }
                let value = self.release(index)?;
                return Some((Time::from_nanos(start), value));
            }
            let mut index = self.slots[level][slot].first;
            self.vacate(level, slot);
            while index != NONE {
                let next = self.entries[index as usize].next;
                self.link(index);
                index = next;
            }
        }
        None
    }

    /// The level and slot of a time: the same from its insertion until the wheel's time enters the slot.
    fn place(&self, time: u64) -> (usize, usize) {
        let differing = (time ^ self.now) | 1;
        let level = differing.ilog2() / BITS;
        let digit = (time >> (level * BITS)).to_le_bytes()[0] as usize;
        (level as usize, digit % SLOTS)
    }

    /// Appends an entry to the list of its slot.
    fn link(&mut self, index: u32) {
        let (level, slot) = self.place(self.entries[index as usize].time);
        let list = &mut self.slots[level][slot];
        let last = list.last;
        list.last = index;
        if last == NONE {
            list.first = index;
            self.occupied[level] |= 1 << slot;
            self.levels |= 1 << level;
        } else {
            self.entries[last as usize].next = index;
        }
        let entry = &mut self.entries[index as usize];
        entry.previous = last;
        entry.next = NONE;
    }

    fn vacate(&mut self, level: usize, slot: usize) {
        self.slots[level][slot] = EMPTY;
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Frees an entry that is in no list any more.
    fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        entry.value.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;
    use std::collections::BTreeMap;

    /// The oracle: a map ordered by time and then by the order of insertion.
    #[test]
    fn does_what_an_ordered_map_does() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut wheel = Wheel::new();
            let mut oracle: BTreeMap<(u64, u64), Key> = BTreeMap::new();
            let mut now = 0_u64;
            for number in 0..2000 {
                match random.below(8) {
                    0..4 => {
                        let bits = random.below(if seed % 2 == 0 { 12 } else { 64 });
                        let time = now.saturating_add(random.below(1 << bits));
                        let key = wheel.insert(Time::from_nanos(time), (time, number));
                        oracle.insert((time, number), key);
                    }
                    4 => {
                        let entry = oracle.iter().nth(random.index(oracle.len()));
                        if let Some((&place, &key)) = entry {
                            assert_eq!(wheel.remove(key), Some(place), "seed {seed}");
                            assert_eq!(wheel.remove(key), None, "seed {seed}");
                            oracle.remove(&place);
                        }
                    }
                    _ => {
                        let bits = random.below(64);
                        let limit = now.saturating_add(random.below(1 << bits));
                        let expected = oracle.first_key_value().map(|(&place, _)| place);
                        let expected = expected.filter(|&(time, _)| time <= limit);
                        let popped = wheel.pop(Time::from_nanos(limit));
                        assert_eq!(popped.map(|(_, place)| place), expected, "seed {seed}");
                        assert_eq!(popped.map(|(time, _)| time.as_nanos()), expected.map(|(time, _)| time));
                        now = expected.map_or(limit, |(time, _)| time);
                        if let Some(place) = expected {
                            oracle.remove(&place);
                        }
                    }
                }
            }
            while let Some((place, _)) = oracle.pop_first() {
                assert_eq!(wheel.pop(Time::MAX).map(|(_, place)| place), Some(place), "seed {seed}");
            }
            assert!(wheel.pop(Time::MAX).is_none());
        }
    }

    #[test]
    fn a_time_that_has_passed_is_next() {
        let mut wheel = Wheel::new();
        wheel.insert(Time::from_nanos(500), 'a');
        assert_eq!(wheel.pop(Time::MAX), Some((Time::from_nanos(500), 'a')));
        wheel.insert(Time::from_nanos(501), 'c');
        wheel.insert(Time::from_nanos(3), 'b');
        assert_eq!(wheel.pop(Time::MAX), Some((Time::from_nanos(500), 'b')));
        assert_eq!(wheel.pop(Time::from_nanos(500)), None);
        assert_eq!(wheel.pop(Time::MAX), Some((Time::from_nanos(501), 'c')));
    }
}
