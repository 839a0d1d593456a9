//! A snapshot, and the changes made on top of it.

use crate::cells::{Cells, Value};
use crate::cursor::Cursor;
use crate::{DROPPED, Database, Durability, Error, NEXT_TREE, Timestamp, Tree};
use fulmar_kv::{Expected, Interval, Key, Object, Part, ShardId, Snapshot, Store};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// A snapshot and the changes made on top of it, which nobody else sees before [`Transaction::commit`]. Dropping it
/// rolls back.
pub struct Transaction {
    pub(crate) database: Database,
    pub(crate) snapshot: Snapshot,
    pub(crate) changes: BTreeMap<Tree, TreeChanges>,
    pub(crate) created: BTreeSet<Tree>,
    pub(crate) dropped: BTreeSet<Tree>,
    pub(crate) required: BTreeSet<(Tree, Key)>,
    pub(crate) touched: BTreeSet<(Tree, Key)>,
    /// Cells that it takes for present without having looked.
    pub(crate) assumed: BTreeSet<(Tree, Key)>,
    pub(crate) is_exclusive: bool,
    /// The root that the last search began at.
    pub(crate) root: RefCell<Option<(Tree, Arc<Object>)>>,
    /// The part of a leaf that it read last, if leaves are far away: what is looked for next may be in it.
    pub(crate) last: RefCell<Option<(Tree, Arc<Object>)>>,
    /// How to take back each change made since the oldest mark, in the order in which they were made.
    undo: Vec<Undo>,
    /// For each mark, how long `undo` was.
    marks: Vec<usize>,
}

/// A key, and the value that a transaction has put under it.
pub type Put = (Box<[u8]>, Arc<[u8]>);

/// What a transaction changed in one tree.
#[derive(Clone, Default)]
pub(crate) struct TreeChanges {
    /// What the snapshot has in these intervals is deleted, but for `cells`.
    pub(crate) cleared: Vec<Interval>,
    /// New values; `None`: deleted.
    pub(crate) cells: Cells,
}

impl TreeChanges {
    /// The cleared interval that `key` is in.
    pub(crate) fn clearing(&self, key: &[u8]) -> Option<&Interval> {
        self.cleared.iter().find(|cleared| cleared.contains(key))
    }
}

enum Undo {
    Cell(Tree, Key, Option<Value>),
    Clear(Tree, TreeChanges),
    Create(Tree),
    Drop(Tree),
}

/// A point inside a transaction to which its changes can be undone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(usize);

impl Transaction {
    pub(crate) fn new(database: &Database) -> Result<Self, Error> {
        Ok(Self {
            database: database.clone(),
            snapshot: Snapshot::open(database.store.clone())?,
            changes: BTreeMap::new(),
            created: BTreeSet::new(),
            dropped: BTreeSet::new(),
            required: BTreeSet::new(),
            touched: BTreeSet::new(),
            assumed: BTreeSet::new(),
            is_exclusive: false,
            root: RefCell::default(),
            last: RefCell::default(),
            undo: Vec::new(),
            marks: Vec::new(),
        })
    }

    /// The snapshot that it reads.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be reached.
    pub fn snapshot(&self) -> Result<Timestamp, Error> {
        self.snapshot.at()
    }

    /// The same, if it is known already: on a store elsewhere the first read takes it.
    pub fn known_snapshot(&self) -> Option<Timestamp> {
        self.snapshot.known()
    }

    /// Lets the read that takes the snapshot look whether `key` has this value there, without a round trip of its own. If
    /// not, it fails with [`Error::Unexpected`], and so does every other that would take it.
    pub fn expect(&self, tree: Tree, key: &[u8], value: Option<&[u8]>) {
        let (object, key, value) = (tree.root(), key.into(), value.map(Into::into));
        self.snapshot.expect(Some(Expected { object, key, value }));
    }

    /// Takes back what was [expected](Self::expect).
    pub fn expect_nothing(&self) {
        self.snapshot.expect(None);
    }

    /// Whether it is to be committed only if nobody else has been since its snapshot: all others were
    /// [excluded](Database::exclude) before that was taken.
    pub fn set_exclusive(&mut self, is_exclusive: bool) {
        self.is_exclusive = is_exclusive;
    }

    /// Whether it has anything to commit.
    pub fn is_changed(&self) -> bool {
        !self.changes.is_empty() || !self.created.is_empty()
    }

    /// Whether this transaction makes the tree.
    pub fn is_new(&self, tree: Tree) -> bool {
        !self.created.is_empty() && self.created.contains(&tree)
    }

    /// The value under `key`.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`]; so for every method below that reads.
    pub fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Arc<[u8]>>, Error> {
        if let Some(value) = self.own(tree, key) {
            return Ok(value.cloned());
        }
        if self.is_new(tree) {
            return Ok(None);
        }
        let leaf = self.leaf(tree, Part::From(key))?;
        Ok(leaf.get(key, self.snapshot()?).map(Into::into))
    }

    /// The value under `key`, for a transaction that reads nothing else: a store elsewhere need not open a snapshot for it,
    /// nor ask what time it is. What else the transaction reads afterwards, it reads from a newer snapshot.
    pub fn get_only(&self, tree: Tree, key: &[u8]) -> Result<Option<Arc<[u8]>>, Error> {
        match self.newest_leaf(tree, key)? {
            Some(leaf) => Ok(leaf.get(key, Timestamp(u64::MAX)).map(Into::into)),
            None => self.get(tree, key),
        }
    }

    /// What this transaction itself has written under `key`: nothing, a value, or `Some(None)` if it has removed it.
    pub fn written(&self, tree: Tree, key: &[u8]) -> Option<Option<&[u8]>> {
        self.own(tree, key).map(|value| value.map(|value| &**value))
    }

    pub(crate) fn own(&self, tree: Tree, key: &[u8]) -> Option<Option<&Arc<[u8]>>> {
        let changes = self.changes.get(&tree)?;
        match changes.cells.get(key) {
            Some(value) => Some(value.as_ref()),
            None => changes.clearing(key).map(|_| None),
        }
    }

    /// Takes back everything that was put into `tree`, and answers it; marks are forgotten. `None`, and nothing is taken
    /// back, if anything was removed from the tree or the transaction has made it.
    pub fn take_puts(&mut self, tree: Tree) -> Option<Vec<Put>> {
        let changes = self.changes.get(&tree)?;
        if self.is_new(tree) || !changes.cleared.is_empty() {
            return None;
        }
        let cells = changes.cells.ascending(Bound::Unbounded);
        let puts: Option<Vec<_>> = cells.map(|(key, value)| Some((key.into(), value.clone()?))).collect();
        if puts.is_some() {
            self.marks.clear();
            self.undo.clear();
            self.changes.remove(&tree);
        }
        puts
    }

    /// Sets the value under `key`.
    ///
    /// # Errors
    /// None today.
    pub fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.change(tree, key, Some(value.into()));
        Ok(())
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// None today.
    pub fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<(), Error> {
        self.change(tree, key, None);
        Ok(())
    }

    fn change(&mut self, tree: Tree, key: &[u8], value: Value) {
        let before = self.changes.entry(tree).or_default().cells.insert(key.into(), value);
        if !self.marks.is_empty() {
            self.undo.push(Undo::Cell(tree, key.into(), before));
        }
    }

    /// Removes every key in the range that this transaction sees. What others add there meanwhile stays.
    ///
    /// # Errors
    /// None today.
    pub fn delete_range(&mut self, tree: Tree, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<(), Error> {
        let after = |key: &[u8]| -> Key { [key, &[0]].concat().into() };
        let low = match low {
            Bound::Included(key) => key.into(),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => [].into(),
        };
        let high = match high {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key.into()),
            Bound::Unbounded => None,
        };
        self.clear(tree, Interval::new(low, high));
        Ok(())
    }

    fn clear(&mut self, tree: Tree, cleared: Interval) {
        if cleared.is_empty() {
            return;
        }
        let changes = self.changes.entry(tree).or_default();
        let before = (!self.marks.is_empty()).then(|| changes.clone());
        changes.cells.retain(|key| !cleared.contains(key));
        changes.cleared.push(cleared);
        if let Some(before) = before {
            self.undo.push(Undo::Clear(tree, before));
        }
    }

    /// How many keys the tree has.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn count(&self, tree: Tree) -> Result<u64, Error> {
        let mut count = 0;
        if self.changes.contains_key(&tree) || self.is_new(tree) {
            let mut cursor = Cursor::new(tree);
            let mut more = cursor.first(self)?;
            while more {
                count += 1;
                more = cursor.next(self)?;
            }
            return Ok(count);
        }
        let mut from = Key::from(&[][..]);
        loop {
            let leaf = self.leaf(tree, Part::From(&from))?;
            // The leaf may have been joined meanwhile with one that is counted already.
            count += leaf.count_from(leaf.lower_bound(&from), self.snapshot()?) as u64;
            match leaf.interval().high() {
                Some(high) => from = high.into(),
                None => return Ok(count),
            }
        }
    }

    /// Makes an empty tree with a name that was never used before.
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`Error::Corrupt`] after four million trees.
    pub fn create_tree(&mut self) -> Result<Tree, Error> {
        let shard = self.shard_for_tree()?;
        self.create_tree_in(shard)
    }

    /// The same, with its root where that of another tree is: what is changed with that is committed in one phase, at least
    /// as long as both are small.
    ///
    /// # Errors
    /// As [`Transaction::create_tree`].
    pub fn create_tree_beside(&mut self, other: Tree) -> Result<Tree, Error> {
        self.create_tree_in(other.shard())
    }

    fn create_tree_in(&mut self, shard: ShardId) -> Result<Tree, Error> {
        let exhausted = || self.database.corrupt("no number is left for another tree".into());
        let facts = Tree::facts(shard);
        let next = match self.get(facts, NEXT_TREE)? {
            Some(stored) => (*stored).try_into().map(u32::from_be_bytes).map_err(|_| exhausted())?,
            None => 2,
        };
        let after = Some(next + 1).filter(|after| *after < 1 << Tree::NUMBER_BITS).ok_or_else(exhausted)?;
        self.put(facts, NEXT_TREE, &after.to_be_bytes())?;
        let tree = Tree::new(shard, next);
        self.created.insert(tree);
        if !self.marks.is_empty() {
            self.undo.push(Undo::Create(tree));
        }
        Ok(tree)
    }

    /// Where a new tree is to be: with the others of this transaction, or else in any shard.
    fn shard_for_tree(&self) -> Result<ShardId, Error> {
        if let Some(sibling) = self.created.first() {
            return Ok(sibling.shard());
        }
        let shards = self.shards()?;
        let chosen = if shards > 1 { self.snapshot()?.0 % u64::from(shards) } else { 0 };
        Ok(ShardId(u16::try_from(chosen).unwrap_or_default()))
    }

    /// Removes the tree with all its keys.
    ///
    /// # Errors
    /// None today.
    pub fn drop_tree(&mut self, tree: Tree) -> Result<(), Error> {
        self.clear(tree, Interval::everything());
        if !self.is_new(tree) {
            self.put(Tree::facts(tree.shard()), &dropped_key(tree), &[])?;
        }
        self.dropped.insert(tree);
        if !self.marks.is_empty() {
            self.undo.push(Undo::Drop(tree));
        }
        Ok(())
    }

    /// Picks a number for a new entry of the tree, if others elsewhere do too: see [`Store::pick`].
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be reached.
    pub fn pick(&self, tree: Tree, next: i64) -> Result<Option<i64>, Error> {
        self.database.store.pick(tree.root(), next, self.snapshot()?)
    }

    /// Notes a number that was picked without the store, for the case that others elsewhere come to pick too.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be reached.
    pub fn note_picked(&self, tree: Tree, number: i64) -> Result<(), Error> {
        self.database.store.note_picked(self.snapshot()?, tree.root(), number);
        Ok(())
    }

    /// Makes the commit fail with a conflict if another transaction changes `key` before it.
    pub fn require_unchanged(&mut self, tree: Tree, key: &[u8]) {
        self.required.insert((tree, key.into()));
    }

    /// Keeps `key` for what this transaction writes elsewhere: of this transaction and a concurrent one that deletes `key`,
    /// the second to commit fails with a conflict. Touching does not conflict with touching, nor with new values.
    pub fn touch(&mut self, tree: Tree, key: &[u8]) {
        self.touched.insert((tree, key.into()));
    }

    /// Makes the commit fail with a conflict unless `key` is there: for a transaction that changes what it has not read. One
    /// that reads nothing takes its snapshot only when it commits, without a round trip of its own.
    pub fn assume(&mut self, tree: Tree, key: &[u8]) {
        self.assumed.insert((tree, key.into()));
    }

    /// Withdraws what [`Transaction::assume`] said: `key` was read.
    pub fn withdraw(&mut self, tree: Tree, key: &[u8]) {
        self.assumed.remove(&(tree, key.into()));
    }

    /// A point to come back to. Marks nest: undoing to one forgets those set after it.
    pub fn mark(&mut self) -> Mark {
        self.marks.push(self.undo.len());
        Mark(self.marks.len() - 1)
    }

    /// Undoes every change made since `mark`, which stays valid. Nothing, if `mark` was forgotten before.
    pub fn undo_to(&mut self, mark: Mark) {
        let Some(length) = self.marks.get(mark.0).copied() else { return };
        self.marks.truncate(mark.0 + 1);
        while self.undo.len() > length
            && let Some(step) = self.undo.pop()
        {
            match step {
                Undo::Cell(tree, key, before) => {
                    let cells = &mut self.changes.entry(tree).or_default().cells;
                    match before {
                        Some(before) => drop(cells.insert(key, before)),
                        None => cells.remove(&key),
                    }
                    self.forget_unchanged(tree);
                }
                Undo::Clear(tree, before) => {
                    self.changes.insert(tree, before);
                    self.forget_unchanged(tree);
                }
                Undo::Create(tree) => {
                    self.created.remove(&tree);
                }
                Undo::Drop(tree) => {
                    self.dropped.remove(&tree);
                }
            }
        }
    }

    fn forget_unchanged(&mut self, tree: Tree) {
        if self.changes.get(&tree).is_some_and(|c| c.cells.is_empty() && c.cleared.is_empty()) {
            self.changes.remove(&tree);
        }
    }

    /// Forgets `mark` and those set after it; their changes stay.
    pub fn release(&mut self, mark: Mark) {
        self.marks.truncate(mark.0);
        if self.marks.is_empty() {
            self.undo.clear();
        }
    }

    /// Commits. After an error nothing of it has happened, but for an [`Error::Io`] which says that this is unknown; the transaction is
    /// over either way.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a transaction that committed since the snapshot changed the same keys or those required;
    /// [`Error::SnapshotGone`] if it must be alone, and may not have been; [`Error::Io`] if the disk fails; [`Error::Corrupt`].
    pub fn commit(self, durability: Durability) -> Result<Timestamp, Error> {
        if !self.is_changed() {
            return self.snapshot();
        }
        self.commit_changes(durability)
    }
}

pub(crate) fn dropped_key(tree: Tree) -> Vec<u8> {
    [DROPPED, &tree.0.to_be_bytes()].concat()
}
