//! How objects are made: by changing cells, cutting, joining; always a new one.

use super::stored::{cells_bound, encode_cell};
use super::{Changes, DELETED, Log, Object, Slot, head};
use crate::{Interval, Key, ObjectId, Timestamp};
use std::ops::Range;

impl Object {
    /// An object without cells.
    pub(crate) fn empty(id: ObjectId, interval: Interval, level: u8) -> Self {
        Builder::with_capacity(0, 0).finish(id, id, interval, level)
    }

    /// The state after `changes`, all made at `at`. Versions that no snapshot at
    /// or after `watermark` reads are left out. A change at timestamp zero has no history: it takes effect for every
    /// snapshot.
    pub(crate) fn apply(&self, changes: &Changes, at: Timestamp, watermark: Timestamp) -> Self {
        let added = cells_bound(changes);
        let mut next = Builder::with_capacity(self.slots.len() + changes.len(), self.cells.len() + added);
        let mut done = 0;
        for (key, value) in changes.iter() {
            let versions = self.versions(key);
            let is_absent = self.slots[versions.clone()].first().is_none_or(Slot::is_deleted);
            if value.is_none() && is_absent {
                continue;
            }
            self.copy(done..versions.start, watermark, &mut next);
            let effaced = value.is_none() && at <= watermark;
            if !effaced {
                next.push(key, value, at);
            }
            next.keep(self, versions.clone(), at, watermark);
            done = versions.end;
        }
        self.copy(done..self.slots.len(), watermark, &mut next);
        let mut object = next.finish(self.id, self.root, self.interval.clone(), self.level);
        object.log = self.log.clone();
        object
    }

    /// Cuts it into parts: this object keeps the cells before the first cut, each cut names the first key of the next
    /// part and its object.
    pub(crate) fn split(&self, cuts: &[(Key, ObjectId)], watermark: Timestamp) -> Vec<Self> {
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let (mut id, mut low, mut from) = (self.id, self.interval.low(), 0);
        for n in 0..=cuts.len() {
            let next = cuts.get(n);
            let to = next.map_or(self.slots.len(), |(key, _)| self.lower_bound(key));
            let bytes = self.slots[from..to].iter().map(|s| s.end() - s.start as usize).sum();
            let mut part = Builder::with_capacity(to - from, bytes);
            self.copy(from..to, watermark, &mut part);
            let high = next.map(|(key, _)| &**key).or_else(|| self.interval.high());
            let mut part =
                part.finish(id, self.root, Interval::new(low.into(), high.map(Into::into)), self.level);
            if n == 0 {
                part.log = self.log.clone();
            }
            parts.push(part);
            if let Some((key, into)) = next {
                (id, low, from) = (*into, key, to);
            }
        }
        parts
    }

    /// This object and its right neighbour as one.
    pub(crate) fn join(&self, right: &Self, watermark: Timestamp) -> Self {
        let mut joined = Builder::with_capacity(
            self.slots.len() + right.slots.len(),
            self.cells.len() + right.cells.len(),
        );
        self.copy(0..self.slots.len(), watermark, &mut joined);
        right.copy(0..right.slots.len(), watermark, &mut joined);
        let interval = Interval::new(self.interval.low().into(), right.interval.high().map(Into::into));
        let mut object = joined.finish(self.id, self.root, interval, self.level);
        object.log = self.log.clone();
        object
    }

    /// The same cells under another name and level.
    pub(crate) fn renamed(&self, id: ObjectId, level: u8) -> Self {
        let mut same = Builder::with_capacity(self.slots.len(), self.cells.len());
        self.copy(0..self.slots.len(), Timestamp(0), &mut same);
        same.finish(id, self.root, self.interval.clone(), level)
    }

    /// Copies cells, but for the versions that no snapshot from `watermark` on reads.
    fn copy(&self, slots: Range<usize>, watermark: Timestamp, to: &mut Builder) {
        if self.stale == 0 {
            return to.copy(self, slots);
        }
        // Cells with one value each, which are most, are copied together.
        let mut plain = slots.start;
        let mut from = slots.start;
        while from < slots.end {
            let end = self.cell_end(from);
            let newest = self.slots[from];
            if newest.is_deleted() || end > from + 1 {
                to.copy(self, plain..from);
                if !(newest.is_deleted() && newest.at <= watermark) {
                    to.copy(self, from..from + 1);
                    to.keep(self, from + 1..end, newest.at, watermark);
                }
                plain = end;
            }
            from = end;
        }
        to.copy(self, plain..slots.end);
    }
}

/// Gathers cells in order.
pub(super) struct Builder {
    slots: Vec<Slot>,
    cells: Vec<u8>,
    newest: Timestamp,
    stale: usize,
}

impl Builder {
    pub(super) fn with_capacity(slots: usize, bytes: usize) -> Self {
        Self {
            slots: Vec::with_capacity(slots),
            cells: Vec::with_capacity(bytes),
            newest: Timestamp(0),
            stale: 0,
        }
    }

    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>, at: Timestamp) {
        let start = self.cells.len();
        encode_cell(&mut self.cells, key, value, at);
        let value_length = value.map_or(0, <[u8]>::len);
        let slot = Slot {
            start: offset(start),
            key: offset(self.cells.len() - value_length - key.len()),
            key_length: offset(key.len()),
            value_length: if value.is_some() { offset(value_length) } else { DELETED },
            at,
        };
        self.account(slot, key);
        self.slots.push(slot);
    }

    /// Copies the newest versions of different cells as they are.
    fn copy(&mut self, from: &Object, slots: Range<usize>) {
        let (Some(first), Some(last)) = (from.slots[slots.clone()].first(), from.slots[slots.clone()].last())
        else {
            return;
        };
        let start = self.cells.len();
        self.cells.extend_from_slice(&from.cells[first.start as usize..last.end()]);
        let _ = offset(self.cells.len());
        let shift = offset(start).wrapping_sub(first.start);
        let copied = &from.slots[slots];
        let newest = copied.iter().map(|slot| slot.at).max();
        self.newest = newest.map_or(self.newest, |newest| newest.max(self.newest));
        self.stale += copied
            .iter()
            .filter(|slot| slot.is_deleted())
            .map(|slot| slot.end() - slot.start as usize)
            .sum::<usize>();
        let moved = |old: &Slot| Slot {
            start: old.start.wrapping_add(shift),
            key: old.key.wrapping_add(shift),
            ..*old
        };
        self.slots.extend(copied.iter().map(moved));
    }

    /// Copies those of `versions`, of the cell just pushed at `newer`, that a snapshot from `watermark` on reads.
    fn keep(&mut self, from: &Object, versions: Range<usize>, newer: Timestamp, watermark: Timestamp) {
        let mut newer = newer;
        for slot in versions {
            if newer <= watermark {
                break;
            }
            let old = from.slots[slot];
            self.push(from.key(slot), (!old.is_deleted()).then(|| from.value(slot)), old.at);
            newer = old.at;
        }
    }

    /// The key and time of the version pushed last.
    pub(super) fn last(&self) -> Option<(&[u8], Timestamp)> {
        self.slots.last().map(|last| (&self.cells[last.key as usize..last.value_start()], last.at))
    }

    fn account(&mut self, slot: Slot, key: &[u8]) {
        self.newest = self.newest.max(slot.at);
        let hidden = self.last().is_some_and(|(last, _)| last == key);
        if hidden || slot.is_deleted() {
            self.stale += slot.end() - slot.start as usize;
        }
    }

    pub(super) fn finish(mut self, id: ObjectId, root: ObjectId, interval: Interval, level: u8) -> Object {
        let key = |s: &Slot| &self.cells[s.key as usize..s.value_start()];
        let (shared, shared_head) = match (self.slots.first(), self.slots.last()) {
            (Some(first), Some(last)) => {
                let shared = key(first).iter().zip(key(last)).take_while(|(a, b)| a == b).count();
                (shared, head(&key(first)[..shared]))
            }
            _ => (0, 0),
        };
        let heads = self.slots.iter().map(|s| head(&key(s)[shared..])).collect();
        if self.cells.capacity() > self.cells.len() + self.cells.len() / 8 + 64 {
            self.cells.shrink_to_fit();
        }
        Object {
            id,
            root,
            low_head: head(interval.low()),
            high_head: interval.high().map_or(u64::MAX, head),
            interval,
            level,
            shared,
            shared_head,
            heads,
            slots: self.slots,
            cells: self.cells,
            newest: self.newest,
            stale: self.stale,
            log: Log::default(),
        }
    }
}

/// Offsets are 32 bits wide, and no commit goes beyond [`Object::LARGEST`].
fn offset(n: usize) -> u32 {
    u32::try_from(n).expect("an object stays below 4 GiB")
}
