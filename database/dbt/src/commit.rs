//! Committing: which leaves a transaction's changes go to, and which leaves are split for them.
//!
//! A plan is made of the tree as it looks now, outside of any lock. If the tree changes before the plan is carried out,
//! the plan is refused as misplaced, and the next one is made.

use crate::search::Place;
use crate::transaction::TreeChanges;
use crate::{Database, Durability, Error, OWN, Timestamp, Transaction, Tree};
use fulmar_kv::{
    Basis, Change, Commit, Interval, Key, Object, ObjectId, Part, Refusal, Restructuring, ShardId, Store,
    Write,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::vec;

/// A leaf larger than this is split, bytes of cells. Each commit copies the leaves it changes; each load reads one.
pub(crate) const LEAF_BYTES: usize = 8 << 10;
/// How full split leaves are made when keys are added at the end, where no more will come in between: 15 of 16.
const APPENDED_BYTES: usize = LEAF_BYTES / 16 * 15;
/// How many nodes with much that is stale one commit cleans up after others.
pub(crate) const COLLECTED_AT_ONCE: usize = 16;
/// What a cell takes besides its key and value, at most.
const CELL_OVERHEAD: usize = 12;

/// A commit in the making.
#[derive(Default)]
struct Plan {
    commit: Commit,
    /// What it is based on, if the transaction has read nothing.
    basis: Option<Basis>,
    /// For each write of the commit, its tree.
    trees: Vec<Tree>,
    /// New links, by the inner node that they go to.
    links: BTreeMap<ObjectId, BTreeMap<Key, Option<ObjectId>>>,
    /// Where leaves that the plan splits or makes will be.
    parts: Vec<(Tree, Interval, ObjectId)>,
    /// The nodes that told where leaves are.
    above: Vec<ObjectId>,
    /// Inner nodes that get links.
    parents: Vec<(Tree, ObjectId)>,
}

/// What a commit leaves to do for balance.
pub(crate) struct Committed {
    at: Timestamp,
    /// Inner nodes that got links.
    pub(crate) parents: Vec<(Tree, ObjectId)>,
    /// Trees that are gone with it.
    dropped: Vec<Tree>,
}

/// A leaf that changes go to.
struct Leaf {
    id: ObjectId,
    interval: Interval,
    /// `None` if the commit makes it.
    object: Option<std::sync::Arc<Object>>,
}

impl Transaction {
    pub(crate) fn commit_changes(self, durability: Durability) -> Result<Timestamp, Error> {
        let database = self.database.clone();
        // What is planned for a storage here cannot be carried out elsewhere.
        let _here = database.store.stay();
        let committed = self.carry_out(durability)?;
        // The transaction is committed whatever comes of this; a disk that fails here fails the next commit too.
        let _ = database.after_commit(&committed);
        Ok(committed.at)
    }

    /// Commits, and leaves the tree as that makes it.
    pub(crate) fn carry_out(mut self, durability: Durability) -> Result<Committed, Error> {
        let (at, parents) = loop {
            // What it expected of a snapshot that is taken only now is not so: a conflict like others.
            let plan = self.plan().map_err(|error| match error {
                Error::Unexpected => Error::Conflict,
                error => error,
            })?;
            let committed = match plan.basis {
                Some(basis) => self.database.store.commit_unread(plan.commit, basis, durability),
                None => self.database.store.commit(plan.commit, durability),
            };
            match committed {
                Ok(at) => break (at, plan.parents),
                Err(Refusal::Misplaced(commit)) => {
                    self.database.store.mistrust(&plan.above);
                    self.take_back(commit, plan.trees);
                }
                Err(Refusal::Failed(error)) => return Err(error),
            }
        };
        let dropped = self.dropped.difference(&self.created).copied().collect();
        Ok(Committed { at, parents, dropped })
    }

    fn plan(&mut self) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        plan.commit.is_exclusive = self.is_exclusive;
        for tree in self.created.difference(&self.dropped) {
            plan.commit.restructurings.push(Restructuring::Create { object: tree.root() });
        }
        self.spread_facts()?;
        for (tree, changes) in std::mem::take(&mut self.changes) {
            if !self.dropped.contains(&tree) {
                plan.tree(self, tree, changes)?;
            }
        }
        for (object, links) in std::mem::take(&mut plan.links) {
            let links = links.into_iter().collect();
            plan.commit.restructurings.push(Restructuring::Relink { object, level: 1, links });
        }
        let shard = plan.commit.writes.first().map_or(ShardId(0), |write| write.object.shard());
        plan.commit.required = plan.locate(self, &self.required, shard)?;
        plan.commit.touched = plan.locate(self, &self.touched, shard)?;
        let present = plan.locate(self, &self.assumed, shard)?;
        // To find leaves it may have read inner nodes, and so have taken its snapshot.
        let has_read = self.known_snapshot().is_some();
        if !has_read && !self.is_exclusive && self.created.is_empty() && plan.commit.is_of(shard) {
            plan.basis = Some(Basis { present, expected: self.snapshot.expected(), ..Basis::default() });
        } else {
            plan.commit.snapshot = self.snapshot()?;
            self.require_assumed(plan.commit.snapshot)?;
        }
        Ok(plan)
    }

    /// What the transaction changes in `Tree(0)` it changes in each shard.
    fn spread_facts(&mut self) -> Result<(), Error> {
        // A storage in this process has one shard.
        if !self.database.is_far() {
            return Ok(());
        }
        let facts = Tree::facts(ShardId(0));
        let Some(changes) = self.changes.get(&facts) else { return Ok(()) };
        let shared: Vec<_> = changes
            .cells
            .ascending(Bound::Unbounded)
            .filter(|(key, _)| key.first() != Some(&OWN))
            .map(|(key, value)| (Key::from(key), value.clone()))
            .collect();
        if shared.is_empty() {
            return Ok(());
        }
        let shards = self.shards()?;
        self.keep_shards(shards)?;
        for shard in 1..shards {
            let copy = self.changes.entry(Tree::facts(ShardId(shard))).or_default();
            for (key, value) in &shared {
                copy.cells.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    fn require_assumed(&self, at: Timestamp) -> Result<(), Error> {
        for (tree, key) in &self.assumed {
            if self.leaf(*tree, Part::From(key))?.get(key, at).is_none() {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Undoes the sorting of changes into leaves.
    fn take_back(&mut self, commit: Commit, trees: Vec<Tree>) {
        for (tree, write) in trees.into_iter().zip(commit.writes) {
            let changes = self.changes.entry(tree).or_default();
            changes.cleared.extend(write.cleared);
            for (key, value) in write.changes.iter() {
                changes.cells.insert(key.into(), value.map(Into::into));
            }
        }
    }
}

impl Plan {
    fn tree(&mut self, transaction: &Transaction, tree: Tree, changes: TreeChanges) -> Result<(), Error> {
        let TreeChanges { cells, mut cleared } = changes;
        let changes = cells.into_changes();
        cleared.sort_by(|a, b| a.low().cmp(b.low()));
        if transaction.is_new(tree) {
            let all = Leaf { id: tree.root(), interval: Interval::everything(), object: None };
            return self.leaf(transaction, tree, all, changes, Vec::new());
        }
        let mut changes = changes.into_iter();
        loop {
            let first_cell = changes.as_slice().first().map(|change| &*change.key);
            let first_cleared = cleared.first().map(Interval::low);
            let first = match (first_cell, first_cleared) {
                (None, None) => return Ok(()),
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b).unwrap_or_default(),
            };
            let (id, interval, object) = if transaction.database.store.kept().is_some() {
                let leaf = transaction.database.find(tree, Part::From(first), 0, &transaction.snapshot)?;
                (leaf.id(), leaf.interval().clone(), Some(leaf))
            } else {
                let place = self.place(transaction, tree, first)?;
                (place.leaf, place.interval, None)
            };
            let inside =
                cleared.iter().map(|c| c.intersection(&interval)).filter(|c| !c.is_empty()).collect();
            cleared.retain_mut(|c| match (c.high(), interval.high()) {
                (_, None) => false,
                (Some(high), Some(end)) if high <= end => false,
                (high, Some(end)) => {
                    *c = Interval::new(c.low().max(end).into(), high.map(Into::into));
                    true
                }
            });
            cleared.sort_by(|a, b| a.low().cmp(b.low()));
            let own = take_below(interval.high(), &mut changes);
            let leaf = Leaf { id, interval, object };
            self.leaf(transaction, tree, leaf, own, inside)?;
        }
    }

    /// Plans the changes of one leaf, and its split if it gets too large.
    fn leaf(
        &mut self,
        transaction: &Transaction,
        tree: Tree,
        leaf: Leaf,
        changes: Vec<Change>,
        cleared: Vec<Interval>,
    ) -> Result<(), Error> {
        let database = &transaction.database;
        // Elsewhere the one who keeps the leaf splits it, after the commit.
        let kept = database.store.kept();
        let cuts =
            kept.map(|kv| (kv, cuts(leaf.object.as_deref(), &changes))).filter(|(_, cuts)| !cuts.is_empty());
        let Some((kv, cuts)) = cuts else {
            if !(changes.is_empty() && cleared.is_empty()) {
                self.write(tree, Write { object: leaf.id, cleared, changes: changes.into() });
            }
            return Ok(());
        };
        let (object, parent) = if leaf.id == tree.root() {
            let into = kv.fresh();
            self.commit.restructurings.push(Restructuring::Grow { root: leaf.id, into });
            (into, leaf.id)
        } else {
            let part = Part::From(leaf.interval.low());
            let parent = database.find(tree, part, 1, &transaction.snapshot)?;
            (leaf.id, parent.id())
        };
        let cuts: Vec<_> = cuts.into_iter().map(|key| (key, kv.fresh())).collect();
        self.parents.push((tree, parent));
        let links = self.links.entry(parent).or_default();
        links.extend(cuts.iter().map(|(key, into)| (key.clone(), Some(*into))));

        let mut changes = changes.into_iter();
        let mut low = leaf.interval.low();
        let mut part = object;
        for next in cuts.iter().map(Some).chain([None]) {
            let high = next.map(|(key, _)| &**key).or_else(|| leaf.interval.high());
            let interval = Interval::new(low.into(), high.map(Into::into));
            let own = take_below(high, &mut changes);
            let inside: Vec<_> =
                cleared.iter().map(|c| c.intersection(&interval)).filter(|c| !c.is_empty()).collect();
            if !(own.is_empty() && inside.is_empty()) {
                self.write(tree, Write { object: part, cleared: inside, changes: own.into() });
            }
            self.parts.push((tree, interval, part));
            if let Some((key, into)) = next {
                (low, part) = (key, *into);
            }
        }
        self.commit.restructurings.push(Restructuring::Split { object, cuts });
        Ok(())
    }

    fn place(&mut self, transaction: &Transaction, tree: Tree, key: &[u8]) -> Result<Place, Error> {
        let place = transaction.database.place(tree, key, &transaction.snapshot)?;
        self.above.push(place.above);
        Ok(place)
    }

    fn write(&mut self, tree: Tree, write: Write) {
        self.commit.writes.push(write);
        self.trees.push(tree);
    }

    /// The leaves that will hold these cells when the commit is carried out. What all shards have, this shard has.
    fn locate<'c>(
        &mut self,
        transaction: &Transaction,
        cells: impl IntoIterator<Item = &'c (Tree, Key)>,
        shard: ShardId,
    ) -> Result<Vec<(ObjectId, Key)>, Error> {
        let mut located = Vec::new();
        for (tree, key) in cells {
            let tree = if *tree == Tree::facts(ShardId(0)) { &Tree::facts(shard) } else { tree };
            if transaction.is_new(*tree) || transaction.dropped.contains(tree) {
                continue;
            }
            // In the order of trees and keys, in which they were planned.
            let after = self.parts.partition_point(|(t, part, _)| (*t, part.low()) <= (*tree, &**key));
            let planned = after.checked_sub(1).map(|place| &self.parts[place]);
            let object = match planned {
                Some((t, interval, part)) if t == tree && interval.contains(key) => *part,
                _ => self.place(transaction, *tree, key)?.leaf,
            };
            located.push((object, key.clone()));
        }
        Ok(located)
    }
}

/// The changes of keys below `high`.
fn take_below(high: Option<&[u8]>, changes: &mut vec::IntoIter<Change>) -> Vec<Change> {
    let ahead = changes.as_slice();
    let count = high.map_or(ahead.len(), |high| ahead.partition_point(|change| &*change.key < high));
    changes.take(count).collect()
}

/// Where to cut a leaf so that no part of it with these changes is too large, or none of its cells could be moved.
pub(crate) fn cuts(leaf: Option<&Object>, changes: &[Change]) -> Vec<Key> {
    let changed: usize = changes.iter().map(change_size).sum();
    if leaf.map_or(0, Object::size) + changed <= LEAF_BYTES {
        return Vec::new();
    }
    let cells = merged(leaf, changes);
    let total: usize = cells.iter().map(|(_, size)| size).sum();
    if total <= LEAF_BYTES {
        return Vec::new();
    }
    let last_key = leaf.and_then(|l| l.slots().checked_sub(1).map(|last| l.key(last)));
    let appends = changes.first().is_some_and(|c| last_key.is_none_or(|last| last < &*c.key));
    let part = if appends { APPENDED_BYTES } else { total.div_ceil(total.div_ceil(LEAF_BYTES / 4 * 3)) };
    let mut cuts = Vec::new();
    let mut size = 0;
    for (n, (key, bytes)) in cells.iter().enumerate() {
        if size > 0 && size + bytes > part {
            cuts.push(separator(cells[n - 1].0, key));
            size = 0;
        }
        size += bytes;
    }
    cuts
}

/// The keys that a leaf has after `changes`, with the bytes that each takes.
fn merged<'a>(leaf: Option<&'a Object>, changes: &'a [Change]) -> Vec<(&'a [u8], usize)> {
    let mut cells: Vec<(&[u8], usize)> = Vec::new();
    let mut changes = changes.iter().peekable();
    if let Some(leaf) = leaf {
        for slot in 0..leaf.slots() {
            let key = leaf.key(slot);
            while let Some(change) = changes.next_if(|c| &*c.key < key) {
                cells.push((&change.key, change_size(change)));
            }
            let mut size = leaf.cell_size(slot);
            if let Some(change) = changes.next_if(|c| &*c.key == key) {
                // The version that it replaces is soon gone.
                size = change_size(change);
            }
            match cells.last_mut() {
                Some((last, bytes)) if *last == key => *bytes += size,
                _ => cells.push((key, size)),
            }
        }
    }
    cells.extend(changes.map(|c| (&*c.key, change_size(c))));
    cells
}

fn change_size(change: &Change) -> usize {
    change.key.len() + change.value.as_ref().map_or(0, |v| v.len()) + CELL_OVERHEAD
}

/// The shortest key above `left` and not above `right`.
fn separator(left: &[u8], right: &[u8]) -> Key {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..(common + 1).min(right.len())].into()
}

impl Database {
    fn after_commit(&self, Committed { at, parents, dropped }: &Committed) -> Result<(), Error> {
        let Some(rebalancer) = self.rebalancer() else { return Ok(()) };
        rebalancer.split_above(parents)?;
        // A storage in this process has one shard.
        let elsewhere = &mut Vec::new();
        rebalancer.resume();
        rebalancer.merge_stale(COLLECTED_AT_ONCE, elsewhere)?;
        self.dropped.lock().extend(dropped.iter().map(|tree| (*at, *tree)));
        rebalancer.remove_dropped(elsewhere)
    }
}
