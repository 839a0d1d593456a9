//! A place in a tree.

use crate::transaction::TreeChanges;
use crate::{Error, Timestamp, Transaction, Tree};
use fulmar_kv::{Key, Object, Part};
use std::ops::Bound;
use std::sync::Arc;

/// Where a seek lands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// The first key at or after the given one.
    AtOrAfter,
    /// The first key after the given one.
    After,
    /// The last key at or before the given one.
    AtOrBefore,
    /// The last key before the given one.
    Before,
}

impl Seek {
    fn is_forward(self) -> bool {
        matches!(self, Self::AtOrAfter | Self::After)
    }
}

/// A place in a tree. It keeps the key and value it stands on whatever its transaction or others change meanwhile;
/// [`Cursor::next`] and [`Cursor::previous`] go on from that key in the transaction as it is then.
pub struct Cursor {
    tree: Tree,
    place: Place,
    /// A leaf seen before, as `snapshot` may see it.
    leaf: Option<Arc<Object>>,
    snapshot: Timestamp,
    /// If it stands in the snapshot: on this slot of the leaf.
    slot: usize,
    /// If it stands on a change of the transaction's own: its key and value. Also a buffer.
    key: Vec<u8>,
    value: Option<Arc<[u8]>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    InSnapshot,
    OnChange,
}

impl Cursor {
    /// A cursor that stands nowhere yet.
    pub fn new(tree: Tree) -> Self {
        Self {
            tree,
            place: Place::Nowhere,
            leaf: None,
            snapshot: Timestamp(0),
            slot: 0,
            key: Vec::new(),
            value: None,
        }
    }

    /// The tree it walks.
    pub fn tree(&self) -> Tree {
        self.tree
    }

    /// Whether it stands on a key.
    pub fn is_positioned(&self) -> bool {
        self.place != Place::Nowhere
    }

    /// The key it stands on; empty if nowhere. Valid until the cursor moves or is dropped.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.place, &self.leaf) {
            (Place::InSnapshot, Some(leaf)) => leaf.key(self.slot),
            (Place::OnChange, _) => &self.key,
            _ => &[],
        }
    }

    /// The value it stands on; empty if nowhere. Valid until the cursor moves or is dropped.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match (self.place, &self.leaf) {
            (Place::InSnapshot, Some(leaf)) => leaf.value(self.slot),
            (Place::OnChange, _) => self.value.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }

    /// Goes to the key that `seek` names; `false`, and nowhere, if there is none.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`]; then it stands nowhere. So for all that move it.
    pub fn seek(&mut self, transaction: &Transaction, key: &[u8], seek: Seek) -> Result<bool, Error> {
        self.arrive(transaction, Some(key), seek)
    }

    /// Goes to `key`, if it is there, or else nowhere. Unlike [`Cursor::seek`] it never looks for what is beside that; and what it
    /// has read then tells of keys to come, so that one after the other are looked for at little cost where there is nothing.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_exactly(&mut self, transaction: &Transaction, key: &[u8]) -> Result<bool, Error> {
        self.place = Place::Nowhere;
        self.value = None;
        match transaction.own(self.tree, key) {
            Some(Some(value)) => {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value = Some(value.clone());
                self.place = Place::OnChange;
            }
            Some(None) => {}
            None if transaction.is_new(self.tree) => {}
            None => {
                let leaf = self.take_leaf(transaction, Part::From(key))?;
                let slot = leaf.visible_from(leaf.lower_bound(key), self.snapshot);
                if let Some(slot) = slot.filter(|slot| leaf.key(*slot) == key) {
                    self.slot = slot;
                    self.place = Place::InSnapshot;
                }
                self.leaf = Some(leaf);
            }
        }
        Ok(self.is_positioned())
    }

    /// The part of a leaf that `part` begins in: the one at hand, if it will do.
    fn take_leaf(&mut self, transaction: &Transaction, part: Part<'_>) -> Result<Arc<Object>, Error> {
        let known = transaction.known_snapshot();
        let at_hand = self.leaf.take().filter(|leaf| Some(self.snapshot) == known && leaf.holds(part));
        let leaf = match at_hand {
            Some(leaf) => leaf,
            None => transaction.leaf(self.tree, part)?,
        };
        self.snapshot = transaction.snapshot()?;
        Ok(leaf)
    }

    /// Goes to `key`, if it is there, or else nowhere; for a transaction that reads nothing else, as
    /// [`Transaction::get_only`].
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_only(&mut self, transaction: &Transaction, key: &[u8]) -> Result<bool, Error> {
        let Some(leaf) = transaction.newest_leaf(self.tree, key)? else {
            return self.seek_exactly(transaction, key);
        };
        self.slot = leaf.lower_bound(key);
        let found = self.slot < leaf.slots() && leaf.key(self.slot) == key;
        self.place = if found { Place::InSnapshot } else { Place::Nowhere };
        self.value = None;
        // Where no snapshot is: whoever goes on from here searches anew.
        self.snapshot = Timestamp(u64::MAX);
        self.leaf = Some(leaf);
        Ok(found)
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn first(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        self.arrive(transaction, Some(&[]), Seek::AtOrAfter)
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn last(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        self.arrive(transaction, None, Seek::Before)
    }

    /// Goes to the next key; a cursor that stands nowhere stays so.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[inline]
    pub fn next(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        if self.place == Place::InSnapshot
            && self.walks_snapshot(transaction)
            && let Some(leaf) = &self.leaf
        {
            if let Some(next) = leaf.visible_after(self.slot, self.snapshot) {
                self.slot = next;
                return Ok(true);
            }
            let Some(high) = leaf.interval().high().map(Key::from) else {
                self.place = Place::Nowhere;
                return Ok(false);
            };
            return self.arrive(transaction, Some(&high), Seek::AtOrAfter);
        }
        self.step(transaction, Seek::After)
    }

    /// Goes to the previous key; a cursor that stands nowhere stays so.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn previous(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        if self.place == Place::InSnapshot
            && self.walks_snapshot(transaction)
            && let Some(leaf) = &self.leaf
            && let Some(previous) = leaf.visible_before(leaf.cell_start(self.slot), self.snapshot)
        {
            self.slot = previous;
            return Ok(true);
        }
        self.step(transaction, Seek::Before)
    }

    /// Whether the snapshot is all there is to see, and the leaf at hand belongs to it.
    #[inline]
    fn walks_snapshot(&self, transaction: &Transaction) -> bool {
        (transaction.changes.is_empty() || !transaction.changes.contains_key(&self.tree))
            && Some(self.snapshot) == transaction.known_snapshot()
    }

    fn step(&mut self, transaction: &Transaction, seek: Seek) -> Result<bool, Error> {
        if self.place == Place::Nowhere {
            return Ok(false);
        }
        let mut from = std::mem::take(&mut self.key);
        if let (Place::InSnapshot, Some(leaf)) = (self.place, &self.leaf) {
            from.clear();
            from.extend_from_slice(leaf.key(self.slot));
        }
        let arrived = self.arrive(transaction, Some(&from), seek);
        if self.place != Place::OnChange {
            self.key = from;
        }
        arrived
    }

    /// `from` is `None` for the end of the tree.
    fn arrive(&mut self, transaction: &Transaction, from: Option<&[u8]>, seek: Seek) -> Result<bool, Error> {
        self.place = Place::Nowhere;
        self.value = None;
        let in_snapshot = self.seek_snapshot(transaction, from, seek)?;
        self.place = match transaction.changes.get(&self.tree) {
            None if in_snapshot => Place::InSnapshot,
            None => Place::Nowhere,
            Some(changes) => self.merge(transaction, changes, in_snapshot, from, seek)?,
        };
        Ok(self.is_positioned())
    }

    /// Finds the slot that `seek` names among those that the snapshot sees.
    fn seek_snapshot(
        &mut self,
        transaction: &Transaction,
        from: Option<&[u8]>,
        seek: Seek,
    ) -> Result<bool, Error> {
        if transaction.is_new(self.tree) {
            return Ok(false);
        }
        let mut leaf = self.take_leaf(transaction, from.map_or(Part::Before(None), Part::From))?;
        let snapshot = self.snapshot;
        let mut found = match (seek, from) {
            (Seek::AtOrAfter, Some(key)) => leaf.visible_from(leaf.lower_bound(key), snapshot),
            (Seek::After, Some(key)) => leaf.visible_from(leaf.upper_bound(key), snapshot),
            (Seek::AtOrBefore, Some(key)) => leaf.visible_before(leaf.upper_bound(key), snapshot),
            (Seek::Before, Some(key)) => leaf.visible_before(leaf.lower_bound(key), snapshot),
            (_, None) => leaf.visible_before(leaf.slots(), snapshot),
        };
        while found.is_none() {
            // The neighbour may have been joined with others meanwhile, so look for the key again.
            if seek.is_forward() {
                let Some(high) = leaf.interval().high().map(Key::from) else { break };
                leaf = transaction.leaf(self.tree, Part::From(&high))?;
                found = leaf.visible_from(leaf.lower_bound(&high), snapshot);
            } else {
                let low = Key::from(leaf.interval().low());
                if low.is_empty() {
                    break;
                }
                leaf = transaction.leaf(self.tree, Part::Before(Some(&low)))?;
                found = leaf.visible_before(leaf.lower_bound(&low), snapshot);
            }
        }
        self.slot = found.unwrap_or(0);
        self.leaf = Some(leaf);
        Ok(found.is_some())
    }

    /// Chooses between the slot in the snapshot and the transaction's own changes, passing over what it deleted.
    fn merge(
        &mut self,
        transaction: &Transaction,
        changes: &TreeChanges,
        in_snapshot: bool,
        from: Option<&[u8]>,
        seek: Seek,
    ) -> Result<Place, Error> {
        let forward = seek.is_forward();
        let (mut ascending, mut descending);
        let own: &mut dyn Iterator<Item = _> = if forward {
            let bound = match (seek, from) {
                (_, None) => Bound::Unbounded,
                (Seek::After, Some(key)) => Bound::Excluded(key),
                (_, Some(key)) => Bound::Included(key),
            };
            ascending = changes.cells.ascending(bound);
            &mut ascending
        } else {
            let bound = match (seek, from) {
                (_, None) => Bound::Unbounded,
                (Seek::Before, Some(key)) => Bound::Excluded(key),
                (_, Some(key)) => Bound::Included(key),
            };
            descending = changes.cells.descending(bound);
            &mut descending
        };
        let mut change = own.next();
        let mut in_snapshot = in_snapshot;
        loop {
            in_snapshot = in_snapshot && self.pass_cleared(transaction, changes, forward)?;
            let here = match &self.leaf {
                Some(leaf) if in_snapshot => Some(leaf.key(self.slot)),
                _ => None,
            };
            let Some((key, value)) = change else {
                return Ok(if in_snapshot { Place::InSnapshot } else { Place::Nowhere });
            };
            let snapshot_is_first = here.is_some_and(|here| if forward { here < key } else { here > key });
            if snapshot_is_first {
                return Ok(Place::InSnapshot);
            }
            if let Some(value) = value {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value = Some(value.clone());
                return Ok(Place::OnChange);
            }
            if here == Some(key) {
                let passed = if forward { Seek::After } else { Seek::Before };
                in_snapshot = self.seek_snapshot(transaction, Some(key), passed)?;
            }
            change = own.next();
        }
    }

    /// Moves on from slots whose keys the transaction has cleared; `false` if that leaves none.
    fn pass_cleared(
        &mut self,
        transaction: &Transaction,
        changes: &TreeChanges,
        forward: bool,
    ) -> Result<bool, Error> {
        while let Some(leaf) = &self.leaf
            && let Some(cleared) = changes.clearing(leaf.key(self.slot))
        {
            let left = if forward {
                let Some(high) = cleared.high() else { return Ok(false) };
                self.seek_snapshot(transaction, Some(high), Seek::AtOrAfter)?
            } else {
                self.seek_snapshot(transaction, Some(cleared.low()), Seek::Before)?
            };
            if !left {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
