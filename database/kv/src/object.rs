//! An object: the cells of one key interval, each with the versions that some snapshot may still read.
//!
//! An object never changes; a commit makes the next one. Readers hold an `Arc` and walk it without a lock, so a
//! cursor stays where it is whatever is committed meanwhile. The price, one copy of a few kilobytes a commit, is far
//! below that of making the commit durable.
//!
//! Cells lie encoded in one buffer, ordered by key and, within a key, newest version first. Beside it stand an index
//! of the cells and, for each, the eight bytes that follow the prefix shared by all keys: a search compares those
//! integers and looks at a key only on a tie.

use crate::wire::{Reader, put_bytes, put_varint};
use crate::{Interval, Key, ObjectId, Timestamp};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One change of one cell: a new value, or none to delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The cell.
    pub key: Key,
    /// Its new value; `None` deletes it.
    pub value: Option<Arc<[u8]>>,
}

/// An immutable state of an object: its cells, each with the versions that open snapshots tell apart.
pub struct Object {
    id: ObjectId,
    /// The object that it was once a part of, by way of splits: itself if it was created.
    root: ObjectId,
    interval: Interval,
    level: u8,
    /// The heads of the interval's ends, so that most keys are placed without a look at those.
    low_head: u64,
    high_head: u64,
    /// How many leading bytes all keys share, and what the first eight of them are.
    shared: usize,
    shared_head: u64,
    /// For each slot, the eight bytes of its key after the shared ones, zero-padded: ordered as the keys are, but for ties.
    heads: Vec<u64>,
    slots: Vec<Slot>,
    /// The encoded cells, in the slots' order without gaps.
    cells: Vec<u8>,
    /// No version in it is newer.
    newest: Timestamp,
    /// Bytes of deletions and of versions that a newer one of the same cell hides; none exactly if every slot is the
    /// only version of its cell and holds a value.
    stale: usize,
    /// What the engine holds of it.
    pub(crate) log: Log,
}

/// The entries under which the engine holds an object: a checkpoint, entry 0, the changes since, and what is left of the
/// changes before it, which a checkpoint does not remove: the next changes overwrite them, and need no second entry to
/// undo the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// Names the checkpoint; the changes since bear it too.
    pub(crate) checkpoint: u64,
    /// How many entries tell the object: none before there is a checkpoint.
    pub(crate) entries: u64,
    /// How many there are.
    pub(crate) stored: u64,
    pub(crate) bytes_since_checkpoint: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Where the encoded cell begins, where its key does, and the lengths of key and value. The value follows the key.
    start: u32,
    key: u32,
    key_length: u32,
    value_length: u32,
    at: Timestamp,
}

const DELETED: u32 = u32::MAX;

impl Slot {
    fn value_start(&self) -> usize {
        self.key as usize + self.key_length as usize
    }
    fn end(&self) -> usize {
        self.value_start() + if self.is_deleted() { 0 } else { self.value_length as usize }
    }
    fn is_deleted(&self) -> bool {
        self.value_length == DELETED
    }
}

impl Object {
    /// An object without cells.
    pub(crate) fn empty(id: ObjectId, interval: Interval, level: u8) -> Self {
        Builder::with_capacity(0, 0).finish(id, id, interval, level)
    }

    /// Its name.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The created object of which it is a part, by way of splits.
    pub fn root(&self) -> ObjectId {
        self.root
    }

    /// The keys that it is responsible for.
    pub fn interval(&self) -> &Interval {
        &self.interval
    }

    /// A number for the layer above: 0 for the tree's leaves, the height above them for its inner nodes.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Bytes of its encoded cells.
    pub fn size(&self) -> usize {
        self.cells.len()
    }

    /// Bytes of [`Object::size`] that no snapshot from now on needs to read.
    pub fn stale(&self) -> usize {
        self.stale
    }

    /// No cell in it changed after this.
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    /// Memory that it takes, bytes.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.cells.capacity()
            + self.slots.capacity() * size_of::<Slot>()
            + self.heads.capacity() * size_of::<u64>()
    }

    /// Number of slots; a slot is one version of one cell.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The key in slot `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn key(&self, slot: usize) -> &[u8] {
        let s = &self.slots[slot];
        &self.cells[s.key as usize..s.value_start()]
    }

    /// The value in slot `slot`; empty for a deletion.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn value(&self, slot: usize) -> &[u8] {
        let s = &self.slots[slot];
        &self.cells[s.value_start()..s.end()]
    }

    /// Bytes that the cell in slot `slot` takes of [`Object::size`].
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn cell_size(&self, slot: usize) -> usize {
        let s = &self.slots[slot];
        s.end() - s.start as usize
    }

    /// The first slot whose key is at or after `key`; [`Object::slots`] if there is none.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        let rest = if self.shared <= 8 && key.len() >= self.shared {
            let start = head(&key[..self.shared]);
            match start.cmp(&self.shared_head) {
                Ordering::Less => return 0,
                Ordering::Equal => &key[self.shared..],
                Ordering::Greater => return self.slots.len(),
            }
        } else {
            let Some(first) = self.slots.first() else { return 0 };
            let shared = &self.cells[first.key as usize..first.key as usize + self.shared];
            match key.strip_prefix(shared) {
                Some(rest) => rest,
                None => return if key < shared { 0 } else { self.slots.len() },
            }
        };
        let head = head(rest);
        let from = self.heads.partition_point(|h| *h < head);
        if self.heads.get(from) != Some(&head) {
            return from;
        }
        if rest.len() <= 8 && self.slots[from].key_length as usize == key.len() {
            // Nothing shorter has the same head before it, and the head is all there is to compare.
            return from;
        }
        let ties = self.heads[from..].partition_point(|h| *h == head);
        from + self.slots[from..from + ties]
            .partition_point(|s| &self.cells[s.key as usize + self.shared..s.value_start()] < rest)
    }

    /// Whether `key` is one that the object is responsible for.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        let head = head(key);
        (self.low_head < head && head < self.high_head) || self.interval.contains(key)
    }

    /// The first slot whose key is after `key`; [`Object::slots`] if there is none.
    #[inline]
    pub fn upper_bound(&self, key: &[u8]) -> usize {
        self.versions(key).end
    }

    /// The slots of `key`, newest version first.
    #[inline]
    fn versions(&self, key: &[u8]) -> Range<usize> {
        let from = self.lower_bound(key);
        let mut to = from;
        while to < self.slots.len() && self.key(to) == key {
            to += 1;
        }
        from..to
    }

    /// When `key` last changed, as far as a transaction that is still open may care.
    pub fn changed(&self, key: &[u8]) -> Option<Timestamp> {
        let slots = self.versions(key);
        self.slots[slots].first().map(|s| s.at)
    }

    /// The value of `key` at `snapshot`.
    pub fn get(&self, key: &[u8], snapshot: Timestamp) -> Option<&[u8]> {
        let found = self.versions(key).find(|s| self.slots[*s].at <= snapshot)?;
        (!self.slots[found].is_deleted()).then(|| self.value(found))
    }

    /// Whether every slot is a cell that `snapshot` sees.
    #[inline]
    fn is_plain(&self, snapshot: Timestamp) -> bool {
        self.stale == 0 && self.newest <= snapshot
    }

    /// The first slot at or after the first one of a cell, `from`, that `snapshot` sees.
    #[inline]
    pub fn visible_from(&self, from: usize, snapshot: Timestamp) -> Option<usize> {
        if self.is_plain(snapshot) {
            return (from < self.slots.len()).then_some(from);
        }
        let mut from = from;
        while from < self.slots.len() {
            let to = self.cell_end(from);
            if let Some(seen) = self.seen(from..to, snapshot) {
                return Some(seen);
            }
            from = to;
        }
        None
    }

    /// The first slot of a later cell than slot `slot`'s that `snapshot` sees.
    #[inline]
    pub fn visible_after(&self, slot: usize, snapshot: Timestamp) -> Option<usize> {
        if self.is_plain(snapshot) {
            return (slot + 1 < self.slots.len()).then_some(slot + 1);
        }
        self.visible_from(self.cell_end(slot), snapshot)
    }

    /// The last slot before the first one of a cell, `before`, that `snapshot` sees.
    #[inline]
    pub fn visible_before(&self, before: usize, snapshot: Timestamp) -> Option<usize> {
        if self.is_plain(snapshot) {
            return before.checked_sub(1);
        }
        let mut to = before;
        while to > 0 {
            let from = self.cell_start(to - 1);
            if let Some(seen) = self.seen(from..to, snapshot) {
                return Some(seen);
            }
            to = from;
        }
        None
    }

    /// The first slot of the cell that slot `slot` belongs to.
    pub fn cell_start(&self, slot: usize) -> usize {
        let mut from = slot;
        while from > 0 && self.same_cell(from - 1, slot) {
            from -= 1;
        }
        from
    }

    fn cell_end(&self, slot: usize) -> usize {
        let mut to = slot + 1;
        while to < self.slots.len() && self.same_cell(slot, to) {
            to += 1;
        }
        to
    }

    fn same_cell(&self, a: usize, b: usize) -> bool {
        self.heads[a] == self.heads[b] && self.key(a) == self.key(b)
    }

    fn seen(&self, versions: Range<usize>, snapshot: Timestamp) -> Option<usize> {
        let mut versions = versions;
        let seen = versions.find(|s| self.slots[*s].at <= snapshot)?;
        (!self.slots[seen].is_deleted()).then_some(seen)
    }

    /// How many cells `snapshot` sees.
    pub fn count(&self, snapshot: Timestamp) -> usize {
        if self.is_plain(snapshot) {
            return self.slots.len();
        }
        let mut count = 0;
        let mut at = self.visible_from(0, snapshot);
        while let Some(slot) = at {
            count += 1;
            at = self.visible_after(slot, snapshot);
        }
        count
    }

    /// The state after `changes`, in ascending order of distinct keys, all made at `at`. Versions that no snapshot at
    /// or after `watermark` reads are left out. A change at timestamp zero has no history: it takes effect for every
    /// snapshot.
    pub(crate) fn apply(&self, changes: &[Change], at: Timestamp, watermark: Timestamp) -> Self {
        let added: usize = changes.iter().map(cell_bound).sum();
        let mut next = Builder::with_capacity(self.slots.len() + changes.len(), self.cells.len() + added);
        let mut done = 0;
        for change in changes {
            let versions = self.versions(&change.key);
            let is_absent = self.slots[versions.clone()].first().is_none_or(Slot::is_deleted);
            if change.value.is_none() && is_absent {
                continue;
            }
            self.copy(done..versions.start, watermark, &mut next);
            let effaced = change.value.is_none() && at <= watermark;
            if !effaced {
                next.push(&change.key, change.value.as_deref(), at);
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
        let mut from = slots.start;
        while from < slots.end {
            let end = self.cell_end(from);
            let newest = self.slots[from];
            if !(newest.is_deleted() && newest.at <= watermark) {
                to.copy(self, from..from + 1);
                to.keep(self, from + 1..end, newest.at, watermark);
            }
            from = end;
        }
    }

    /// Appends it as the engine stores it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.cells.len() + 64);
        out.push(self.level);
        put_varint(out, self.root.0);
        self.interval.encode(out);
        put_varint(out, self.slots.len() as u64);
        out.extend_from_slice(&self.cells);
    }

    pub(crate) fn with_log(self, log: Log) -> Self {
        Self { log, ..self }
    }

    /// The object that [`Object::encode`] wrote; `None` if these bytes are not one.
    pub(crate) fn decode(id: ObjectId, bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let level = input.byte()?;
        let root = ObjectId(input.varint()?);
        let interval = Interval::decode(&mut input)?;
        let count = usize::try_from(input.varint()?).ok()?;
        if count > bytes.len() {
            return None;
        }
        let mut object = Builder::with_capacity(count, bytes.len());
        for _ in 0..count {
            let (key, value, at) = decode_cell(&mut input)?;
            if let Some(last) = object.slots.last() {
                let last_key = &object.cells[last.key as usize..last.value_start()];
                if (key, last.at) < (last_key, at) || (key == last_key && last.at == at) {
                    return None;
                }
            }
            if !interval.contains(key) {
                return None;
            }
            object.push(key, value, at);
        }
        input.is_empty().then(|| object.finish(id, root, interval, level))
    }

    /// Breaches of what the fields promise; none in a sound object.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut stale = 0;
        for (i, slot) in self.slots.iter().enumerate() {
            let key = self.key(i);
            if !self.interval.contains(key) {
                problems.push(format!("object {}: key {key:02x?} outside of {:?}", self.id.0, self.interval));
            }
            if i > 0 {
                let ordered = (self.key(i - 1), slot.at) < (key, self.slots[i - 1].at);
                if !ordered {
                    problems.push(format!("object {}: slot {i} out of order", self.id.0));
                }
            }
            let hidden = i > 0 && self.key(i - 1) == key;
            if hidden || slot.is_deleted() {
                stale += slot.end() - slot.start as usize;
            }
            if slot.at > self.newest {
                problems.push(format!("object {}: slot {i} is newer than the newest", self.id.0));
            }
        }
        if stale != self.stale {
            problems.push(format!("object {}: {stale} stale bytes, not {}", self.id.0, self.stale));
        }
        problems
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {} level {} {:?}:", self.id.0, self.level, self.interval)?;
        for (i, slot) in self.slots.iter().enumerate() {
            let value = if slot.is_deleted() { "deleted".into() } else { format!("{:02x?}", self.value(i)) };
            write!(f, "\n  {:02x?} @{} {value}", self.key(i), slot.at.0)?;
        }
        Ok(())
    }
}

/// Changes of one object made at one time, as the engine stores them.
pub(crate) fn encode_changes(changes: &[Change], at: Timestamp) -> Vec<u8> {
    let mut out = Vec::with_capacity(changes.iter().map(cell_bound).sum());
    for change in changes {
        encode_cell(&mut out, &change.key, change.value.as_deref(), at);
    }
    out
}

/// What [`encode_changes`] wrote; `None` if these bytes are not that.
pub(crate) fn decode_changes(bytes: &[u8]) -> Option<(Vec<Change>, Timestamp)> {
    let mut input = Reader::new(bytes);
    let mut changes = Vec::new();
    let mut made = Timestamp(0);
    while !input.is_empty() {
        let (key, value, at) = decode_cell(&mut input)?;
        changes.push(Change { key: key.into(), value: value.map(Into::into) });
        made = at;
    }
    Some((changes, made))
}

/// No cell made of this change takes more bytes.
fn cell_bound(change: &Change) -> usize {
    change.key.len() + change.value.as_ref().map_or(0, |v| v.len()) + 20
}

/// A cell's key, its value or `None` for a deletion, and when it got it.
type StoredCell<'a> = (&'a [u8], Option<&'a [u8]>, Timestamp);

/// Key length, value length plus one (0: deleted), timestamp, key, value.
fn encode_cell(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>, at: Timestamp) {
    put_varint(out, key.len() as u64);
    put_varint(out, value.map_or(0, |v| v.len() as u64 + 1));
    put_varint(out, at.0);
    out.extend_from_slice(key);
    out.extend_from_slice(value.unwrap_or_default());
}

fn decode_cell<'a>(input: &mut Reader<'a>) -> Option<StoredCell<'a>> {
    let key_length = usize::try_from(input.varint()?).ok()?;
    let value_length = usize::try_from(input.varint()?).ok()?;
    let at = Timestamp(input.varint()?);
    let key = input.take(key_length)?;
    let value = if value_length == 0 { None } else { Some(input.take(value_length - 1)?) };
    Some((key, value, at))
}

/// The first eight bytes, zero-padded, as an integer: of two byte strings with different heads, the one with the lower
/// head is the lower.
#[inline]
fn head(rest: &[u8]) -> u64 {
    match rest.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(head)
        }
    }
}

/// Gathers cells in order.
struct Builder {
    slots: Vec<Slot>,
    cells: Vec<u8>,
    newest: Timestamp,
    stale: usize,
}

impl Builder {
    fn with_capacity(slots: usize, bytes: usize) -> Self {
        Self {
            slots: Vec::with_capacity(slots),
            cells: Vec::with_capacity(bytes),
            newest: Timestamp(0),
            stale: 0,
        }
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>, at: Timestamp) {
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

    /// Copies cells as they are.
    fn copy(&mut self, from: &Object, slots: Range<usize>) {
        let (Some(first), Some(last)) = (from.slots[slots.clone()].first(), from.slots[slots.clone()].last())
        else {
            return;
        };
        let start = self.cells.len();
        self.cells.extend_from_slice(&from.cells[first.start as usize..last.end()]);
        let _ = offset(self.cells.len());
        let shift = offset(start).wrapping_sub(first.start);
        for i in slots {
            let old = from.slots[i];
            let slot = Slot { start: old.start.wrapping_add(shift), key: old.key.wrapping_add(shift), ..old };
            if from.stale == 0 {
                self.newest = self.newest.max(slot.at);
            } else {
                self.account(slot, from.key(i));
            }
            self.slots.push(slot);
        }
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

    fn account(&mut self, slot: Slot, key: &[u8]) {
        self.newest = self.newest.max(slot.at);
        let hidden =
            self.slots.last().is_some_and(|last| &self.cells[last.key as usize..last.value_start()] == key);
        if hidden || slot.is_deleted() {
            self.stale += slot.end() - slot.start as usize;
        }
    }

    fn finish(mut self, id: ObjectId, root: ObjectId, interval: Interval, level: u8) -> Object {
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

/// Offsets are 32 bits wide: an object is split long before, and a single cell is bounded by SQLite's own limit.
fn offset(n: usize) -> u32 {
    u32::try_from(n).expect("an object stays below 4 GiB")
}

impl Interval {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.low());
        match self.high() {
            Some(high) => {
                out.push(1);
                put_bytes(out, high);
            }
            None => out.push(0),
        }
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let low = input.bytes()?.into();
        let high = match input.byte()? {
            0 => None,
            1 => Some(input.bytes()?.into()),
            _ => return None,
        };
        Some(Self::new(low, high))
    }
}
