//! An object: the cells of one key interval, each with the versions that some snapshot may still read.
//!
//! An object never changes; a commit makes the next one. Readers hold an `Arc` and walk it without a lock, so a
//! cursor stays where it is whatever is committed meanwhile. The price, one copy of a few kilobytes a commit, is far
//! below that of making the commit durable.
//!
//! Cells lie encoded in one buffer, ordered by key and, within a key, newest version first. Beside it stand an index
//! of the cells and, for each, the eight bytes that follow the prefix shared by all keys: a search compares those
//! integers and looks at a key only on a tie.
//!
//! *Known as:* a page, a node of a B-tree; its cells are chains of row versions.

mod changes;
mod next;
mod part;
mod stored;
#[cfg(test)]
pub(crate) mod tests;

pub use changes::{Changes, KeyAndValue};
pub use part::View;
pub use stored::Encoded;
pub(crate) use stored::encode_changes;

use crate::key::debug_bytes;
use crate::{Interval, Key, ObjectId, Timestamp};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One change of one cell: a new value, or none to delete it.
#[derive(Clone, PartialEq, Eq)]
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

/// When an object of which a quarter is stale is worth a rewrite of its own, bytes. (After each row was changed once under a
/// snapshot, half of all is.)
const WORTH_COLLECTING: usize = 2 << 10;
/// A quarter of a leaf, as the layer above makes them, bytes.
const SPARSE: usize = 2 << 10;

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

    /// No commit lets an object's cells grow beyond so many bytes. Leaves are split long before: only versions of one
    /// row can take so much.
    pub const LARGEST: usize = 4_000_000_000;

    /// Bytes of its encoded cells.
    pub fn size(&self) -> usize {
        self.cells.len()
    }

    /// Bytes of [`Object::size`] that no snapshot from now on needs to read.
    pub fn stale(&self) -> usize {
        self.stale
    }

    /// Whether a rewrite without what is stale is worth its cost.
    pub(crate) fn is_mostly_stale(&self) -> bool {
        self.stale > WORTH_COLLECTING.max(self.size() / 4)
    }

    /// Whether so little is left in it that it may well fit into a neighbour.
    pub(crate) fn is_sparse(&self) -> bool {
        self.size() - self.stale <= SPARSE
    }

    /// Whether it is a part of a tree in which nobody who comes now finds anything: a neighbour can have its place, as soon as no
    /// snapshot is older. A root stays as it is.
    pub(crate) fn is_void(&self) -> bool {
        self.stale == self.size() && self.id != self.root
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
        self.count_from(0, snapshot)
    }

    /// How many cells `snapshot` sees at or after the first slot of a cell, `from`.
    pub fn count_from(&self, from: usize, snapshot: Timestamp) -> usize {
        if self.is_plain(snapshot) {
            return self.slots.len() - from;
        }
        let mut count = 0;
        let mut at = self.visible_from(from, snapshot);
        while let Some(slot) = at {
            count += 1;
            at = self.visible_after(slot, snapshot);
        }
        count
    }

    pub(crate) fn with_log(self, log: Log) -> Self {
        Self { log, ..self }
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

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}=", self.key)?;
        match &self.value {
            Some(value) => debug_bytes(value, f),
            None => f.write_str("deleted"),
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {} level {} {:?}:", self.id.0, self.level, self.interval)?;
        for (i, slot) in self.slots.iter().enumerate() {
            let value =
                if slot.is_deleted() { "deleted".into() } else { format!("{:?}", Key::from(self.value(i))) };
            write!(f, "\n  {:?} @{} {value}", Key::from(self.key(i)), slot.at.0)?;
        }
        Ok(())
    }
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
