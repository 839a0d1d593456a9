//! Keeping the tree in shape: inner nodes split, sparse nodes merged, dropped trees removed.
//!
//! Each step is a commit of restructurings alone. One that is refused because somebody else was faster is made again or
//! left to them: the tree is sound with or without it.
//!
//! *Known as:* rebalancing, node splits and merges.

use crate::commit::{COLLECTED_AT_ONCE, Committed, LEAF_BYTES, cuts};
use crate::reshape::{Linked, Reshape, Shape, Walked};
use crate::site::Where;
use crate::transaction::dropped_key;
use crate::{Cursor, DROPPED, Database, Durability, Error, NEXT_TREE, Seek, Timestamp, Tree, WELCOME};
use fulmar_kv::{Commit, Key, Object, ObjectId, Part, Refusal, Restructuring, Snapshot, Store};
use std::ops::ControlFlow;
use std::sync::Arc;

/// An inner node larger than this is split, bytes of cells.
const INNER_BYTES: usize = 16 << 10;
/// How many nodes with much that is stale a transaction cleans up that wrote nothing, as it may have been what kept them so: some
/// 30 MB, which take a tenth of a second.
const COLLECTED_AT_MOST: usize = 4096;
/// How many nodes of dropped trees one commit removes.
const REMOVED_AT_ONCE: usize = 64;

/// Keeps the shape of trees whose storage is in this process.
pub(crate) struct Rebalancer<'a> {
    database: &'a Database,
    kv: fulmar_kv::Database,
}

impl Database {
    pub(crate) fn rebalancer(&self) -> Option<Rebalancer<'_>> {
        self.store.kept().map(|kv| Rebalancer { database: self, kv })
    }
}

impl Rebalancer<'_> {
    fn facts(&self) -> Tree {
        Tree::facts(self.kv.shard())
    }

    /// The next tree of this shard that will be made.
    fn next_tree(&self) -> Result<Tree, Error> {
        let stored = self.database.begin()?.get(self.facts(), NEXT_TREE)?;
        let number = stored.and_then(|stored| (*stored).try_into().ok()).map_or(2, u32::from_be_bytes);
        Ok(Tree::new(self.kv.shard(), number))
    }

    /// Carries out restructurings; says whether they still fitted.
    fn restructure(&self, restructurings: Vec<Restructuring>) -> Result<bool, Error> {
        // Not worth a sync of its own: what is lost in a crash was not visible, and is made again when needed. A later
        // synced commit brings it along, as the engine keeps the order of writes.
        match self.kv.commit(Commit { restructurings, ..Commit::default() }, Durability::Written) {
            Ok(_) => Ok(true),
            Err(Refusal::Misplaced(_)) => Ok(false),
            Err(Refusal::Failed(error)) => Err(error),
        }
    }

    /// Splits a leaf that commits of others have made too large. One that is pinned is left to the commit that ends that,
    /// one of a tree whose root is elsewhere to the shard that has the links.
    fn split_leaf(&self, id: ObjectId, elsewhere: &mut Vec<Reshape>) -> Result<(), Error> {
        while let Some(leaf) = self.kv.read(id)?
            && leaf.level() == 0
            && leaf.size() > LEAF_BYTES
            && !self.kv.is_pinned(id)
            && let Some(tree) = Tree::of(leaf.root())
        {
            let cuts = cuts(Some(&leaf), &[]);
            if cuts.is_empty() {
                return Ok(());
            }
            if tree.shard() != self.kv.shard() {
                elsewhere.push(reshape(&leaf, Shape::Split(cuts)));
                return Ok(());
            }
            if let Some(parent) = self.split(tree, &leaf, cuts)? {
                return self.split_inner(tree, parent);
            }
        }
        Ok(())
    }

    /// Splits the inner node `id` if it is too large, and then, as far as that makes them so, those above it.
    pub(crate) fn split_inner(&self, tree: Tree, id: ObjectId) -> Result<(), Error> {
        while let Some(node) = self.kv.read(id)?
            && node.level() > 0
            && node.size() > INNER_BYTES
        {
            let cuts = inner_cuts(&node);
            if cuts.is_empty() {
                return Ok(());
            }
            if let Some(parent) = self.split(tree, &node, cuts)? {
                return self.split_inner(tree, parent);
            }
        }
        Ok(())
    }

    /// Splits a node at these keys and gives the node that links to the parts; nothing if the tree has changed meanwhile.
    /// A root keeps its name, and what it holds is first moved below it.
    fn split(&self, tree: Tree, node: &Object, cuts: Vec<Key>) -> Result<Option<ObjectId>, Error> {
        let mut restructurings = Vec::new();
        let (object, parent) = if node.id() == tree.root() {
            let into = self.kv.fresh();
            restructurings.push(Restructuring::Grow { root: node.id(), into });
            (into, node.id())
        } else {
            (node.id(), self.database.parent(tree, node)?.id())
        };
        let cuts: Vec<_> = cuts.into_iter().map(|key| (key, self.kv.fresh())).collect();
        let links = cuts.iter().map(|(key, into)| (key.clone(), Some(*into))).collect();
        restructurings.push(Restructuring::Split { object, cuts });
        restructurings.push(Restructuring::Relink { object: parent, level: node.level() + 1, links });
        Ok(self.restructure(restructurings)?.then_some(parent))
    }

    /// Has [`Rebalancer::merge_stale`] try again what could not be done.
    pub(crate) fn resume(&self) {
        self.kv.resume();
    }

    /// Rewrites nodes of which much is stale, and merges those that this leaves sparse or empty.
    pub(crate) fn merge_stale(&self, most: usize, elsewhere: &mut Vec<Reshape>) -> Result<(), Error> {
        for object in self.kv.stale(most) {
            if self.kv.read(object)?.is_some_and(|node| node.stale() > 0) {
                self.restructure(vec![Restructuring::Collect { object }])?;
            }
            let Some(node) = self.kv.read(object)? else { continue };
            let Some(tree) = Tree::of(node.root()) else { continue };
            self.merge(tree, &node, elsewhere)?;
            // Somebody was faster, or other shards have a part in it, who may not hear of it or may have too much to do.
            let is_empty = |node: Arc<Object>| adds_nothing(&node) && object != tree.root();
            if self.kv.read(object)?.is_some_and(is_empty) {
                self.kv.put_off(object);
            }
        }
        Ok(())
    }

    /// Joins a sparse node with a neighbour under the same parent, and then, as far as that makes them sparse, those
    /// above. One that is empty is joined with any neighbour.
    fn merge(&self, tree: Tree, node: &Object, elsewhere: &mut Vec<Reshape>) -> Result<(), Error> {
        if node.id() == tree.root() {
            return self.shrink(tree);
        }
        let full = if node.level() == 0 { LEAF_BYTES } else { INNER_BYTES };
        if node.size() > full / 4 && !adds_nothing(node) {
            return Ok(());
        }
        if tree.shard() != self.kv.shard() {
            elsewhere.push(reshape(node, JOIN));
            return Ok(());
        }
        let parent = self.database.parent(tree, node)?;
        let links = self.database.links(&parent)?;
        let Some(at) = links.iter().position(|(_, child)| *child == node.id()) else { return Ok(()) };
        let linked = Linked { parent: parent.id(), links, at };
        // An only child has neighbours as soon as its parent is joined with one.
        let (mut goes_on, mut is_far) = (linked.links.len() == 1, false);
        for [(_, left), (separator, right)] in linked.pairs() {
            let neighbour = if *left == node.id() { *right } else { *left };
            if neighbour.shard() != self.kv.shard() {
                is_far = true;
                continue;
            }
            let fits =
                |neighbour: Arc<Object>| adds_nothing(node) || node.size() + neighbour.size() <= full / 4 * 3;
            let unlink = vec![(separator.clone(), None)];
            let join = || {
                self.restructure(vec![
                    Restructuring::Join { left: *left, right: *right },
                    Restructuring::Relink { object: parent.id(), level: parent.level(), links: unlink },
                ])
            };
            if self.kv.read(neighbour)?.is_some_and(fits) && join()? {
                self.split_inner(tree, *left)?;
                goes_on = true;
                break;
            }
        }
        match self.kv.read(parent.id())? {
            Some(parent) if goes_on => self.merge(tree, &parent, elsewhere),
            _ => {
                elsewhere.extend(is_far.then(|| reshape(node, JOIN)));
                Ok(())
            }
        }
    }

    /// Takes away the levels of a tree that are a single node each, but for its only leaf if that is elsewhere.
    fn shrink(&self, tree: Tree) -> Result<(), Error> {
        while let Some(root) = self.kv.read(tree.root())?
            && root.level() > 0
            && root.slots() == 1
            && self.restructure(vec![Restructuring::Shrink { root: root.id() }])?
        {}
        Ok(())
    }

    /// Keeps an inner node in shape whose links have changed.
    fn keep_inner(&self, id: ObjectId, elsewhere: &mut Vec<Reshape>) -> Result<(), Error> {
        let Some(node) = self.kv.read(id)?.filter(|node| node.level() > 0) else { return Ok(()) };
        let Some(tree) = Tree::of(node.root()) else { return Ok(()) };
        self.split_inner(tree, id)?;
        self.merge(tree, &node, elsewhere)
    }

    /// Remembers trees whose drop a crash kept from being finished. To be called before anything else uses the trees.
    pub(crate) fn find_dropped(&self) -> Result<(), Error> {
        let reader = self.database.begin()?;
        let mut cursor = Cursor::new(self.facts());
        let mut more = cursor.seek(&reader, DROPPED, Seek::AtOrAfter)?;
        let mut dropped = self.database.dropped.lock();
        while more && let Some(number) = cursor.key().strip_prefix(DROPPED) {
            if let Ok(number) = number.try_into() {
                dropped.push((reader.snapshot()?, Tree(u32::from_be_bytes(number))));
            }
            more = cursor.next(&reader)?;
        }
        Ok(())
    }

    /// Splits inner nodes that have got links, where they are too large.
    pub(crate) fn split_above(&self, parents: &[(Tree, ObjectId)]) -> Result<(), Error> {
        parents.iter().try_for_each(|(tree, parent)| self.split_inner(*tree, *parent))
    }

    /// Removes some nodes of dropped trees that no snapshot reads any more.
    pub(crate) fn remove_dropped(&self, elsewhere: &mut Vec<Reshape>) -> Result<(), Error> {
        let mut left = REMOVED_AT_ONCE;
        while left > 0
            && let Some((at, tree)) = self.due()
        {
            let before = elsewhere.len();
            if self.remove_below(tree.root(), &mut left, elsewhere)?.is_break() || elsewhere.len() > before {
                self.database.dropped.lock().push((at, tree));
                return Ok(());
            }
            let mut done = self.database.begin()?;
            done.delete(self.facts(), &dropped_key(tree))?;
            match done.carry_out(Durability::Written) {
                Ok(Committed { parents, .. }) => self.split_above(&parents)?,
                // It stays noted as dropped, and is looked at again after the next start.
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A dropped tree that no snapshot reads any more, and when that was; others do not get it then.
    fn due(&self) -> Option<(Timestamp, Tree)> {
        let mut dropped = self.database.dropped.lock();
        let oldest = self.kv.oldest_snapshot();
        let due = dropped.iter().position(|(at, _)| *at <= oldest)?;
        Some(dropped.swap_remove(due))
    }

    /// Removes the node and all below it, up to `left` nodes, the lowest first. Its leaves elsewhere are removed, and their
    /// links, before it is.
    fn remove_below(
        &self,
        id: ObjectId,
        left: &mut usize,
        elsewhere: &mut Vec<Reshape>,
    ) -> Result<ControlFlow<()>, Error> {
        let Some(node) = self.kv.read(id)? else { return Ok(ControlFlow::Continue(())) };
        if node.level() > 0 {
            let before = elsewhere.len();
            for (low, leaf) in self.database.links(&node)? {
                if leaf.shard() != self.kv.shard() {
                    elsewhere.push(Reshape { root: node.root(), leaf, low, shape: Shape::Remove });
                } else if self.remove_below(leaf, left, elsewhere)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if elsewhere.len() > before {
                return Ok(ControlFlow::Break(()));
            }
        }
        if *left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        *left -= 1;
        self.restructure(vec![Restructuring::Remove { object: id }])?;
        Ok(ControlFlow::Continue(()))
    }
}

impl Database {
    /// Cleans up after a transaction that wrote nothing and is over: versions that it kept readable are removed, as nobody else
    /// may come to do that. Where the storage is elsewhere, the server does it.
    pub fn clean_up(&self) {
        let place = self.store.stay();
        // Every transaction that only reads comes by here, and hardly ever is there anything to do.
        if !matches!(&*place, Where::Here(kv) if kv.has_stale()) {
            return;
        }
        if let Some(rebalancer) = self.rebalancer() {
            // If the second finds that nothing more is due, the engine gives back what the first has replaced.
            for most in [COLLECTED_AT_MOST, COLLECTED_AT_ONCE] {
                // A disk that fails here fails the next commit too. A storage in this process has one shard.
                let _ = rebalancer.merge_stale(most, &mut Vec::new());
            }
        }
    }

    /// The node that links to the leaf for `key` in the tree with this root; nothing, if the root is a leaf or there is none, or its leaves
    /// do not go to other shards: without its facts a shard cannot be opened.
    fn lowest_inner(&self, root: ObjectId, key: &[u8]) -> Result<Option<Arc<Object>>, Error> {
        let Some(tree) = Tree::of(root).filter(|tree| *tree != Tree::facts(tree.shard())) else {
            return Ok(None);
        };
        match self.store.read(root, Part::From(&[]), &Snapshot::none())? {
            Some(root) if root.level() > 0 => {
                self.find(tree, Part::From(key), 1, &Snapshot::none()).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// For whoever has commits of clients elsewhere carried out.
impl Database {
    /// Keeps the shape of the trees of this shard: a commit that has taken place has written these objects. Answers what is to be done
    /// about those whose tree has its root in another shard.
    ///
    /// # Errors
    /// What the storage says. It is the next commit's to report.
    pub fn reshape_after(&self, written: &[ObjectId]) -> Result<Vec<Reshape>, Error> {
        let mut elsewhere = Vec::new();
        let Some(rebalancer) = self.rebalancer() else { return Ok(elsewhere) };
        for id in written {
            rebalancer.split_leaf(*id, &mut elsewhere)?;
            rebalancer.keep_inner(*id, &mut elsewhere)?;
        }
        if written.is_empty() {
            // Now and then, not with each commit.
            rebalancer.resume();
        }
        rebalancer.merge_stale(COLLECTED_AT_ONCE, &mut elsewhere)?;
        if written.contains(&rebalancer.facts().root()) {
            self.dropped.lock().clear();
            rebalancer.find_dropped()?;
        }
        rebalancer.remove_dropped(&mut elsewhere)?;
        Ok(elsewhere)
    }

    /// Whether the shard, which came after the others, has [what all of them have](Self::welcome_shards).
    ///
    /// # Errors
    /// What the storage says.
    pub fn is_welcome(&self) -> Result<bool, Error> {
        let Some(rebalancer) = self.rebalancer() else { return Ok(false) };
        Ok(self.begin()?.get(rebalancer.facts(), WELCOME)?.is_some())
    }

    /// Cuts a leaf of this shard at these keys, if it still can be cut there; if its tree has its root in another shard,
    /// answers what that is to do.
    ///
    /// # Errors
    /// What the storage says.
    pub fn split(&self, leaf: ObjectId, cuts: Vec<Key>) -> Result<Vec<Reshape>, Error> {
        let Some(rebalancer) = self.rebalancer() else { return Ok(Vec::new()) };
        let leaf =
            rebalancer.kv.read(leaf)?.filter(|node| node.level() == 0 && !rebalancer.kv.is_pinned(leaf));
        let Some((leaf, tree)) = leaf.and_then(|leaf| Tree::of(leaf.root()).map(|tree| (leaf, tree))) else {
            return Ok(Vec::new());
        };
        if tree == rebalancer.facts() {
            // The parts could not go anywhere.
            return Ok(Vec::new());
        }
        if tree.shard() != rebalancer.kv.shard() {
            return Ok(vec![reshape(&leaf, Shape::Split(cuts))]);
        }
        if let Some(parent) = rebalancer.split(tree, &leaf, cuts)? {
            rebalancer.split_inner(tree, parent)?;
        }
        Ok(Vec::new())
    }

    /// Leaves of the trees whose roots are in this shard, from a place on that [`Walked::next`] has given; nothing, at the
    /// end.
    ///
    /// # Errors
    /// What the storage says.
    pub fn leaves(&self, from: Option<(ObjectId, Key)>) -> Result<Option<Walked>, Error> {
        let Some(rebalancer) = self.rebalancer() else { return Ok(None) };
        let (mut root, mut key) = from.unwrap_or_else(|| (rebalancer.facts().root(), Key::from([])));
        let end = rebalancer.next_tree()?.root();
        while root < end {
            let after = ObjectId(root.0 + 1);
            if let Some(node) = self.lowest_inner(root, &key)? {
                let next =
                    node.interval().high().map_or_else(|| (after, Key::from([])), |high| (root, high.into()));
                return Ok(Some(Walked { root, links: self.links(&node)?, next: Some(next) }));
            }
            (root, key) = (after, Key::from([]));
        }
        Ok(None)
    }

    /// What the tree with this root, which is of this shard, has where `key` belongs; nothing, if its root is a leaf.
    ///
    /// # Errors
    /// What the storage says.
    pub fn linked(&self, root: ObjectId, key: &[u8]) -> Result<Option<Linked>, Error> {
        let Some(node) = self.lowest_inner(root, key)? else { return Ok(None) };
        let links = self.links(&node)?;
        let at = links.partition_point(|(low, _)| **low <= *key).checked_sub(1);
        Ok(at.map(|at| Linked { parent: node.id(), links, at }))
    }
}

/// Whether a neighbour that takes it in is no larger for that, or by one link.
fn adds_nothing(node: &Object) -> bool {
    node.slots() <= usize::from(node.level().min(1))
}

/// A wish to join a sparse leaf with a neighbour.
const JOIN: Shape = Shape::Join((LEAF_BYTES / 4 * 3) as u64);

/// A change of a leaf in which another shard has a part.
fn reshape(leaf: &Object, shape: Shape) -> Reshape {
    Reshape { root: leaf.root(), leaf: leaf.id(), low: leaf.interval().low().into(), shape }
}

/// Keys at which to cut an inner node into parts of half the largest size, but of two links at least: with fewer, the
/// links to the parts would be as large as what was cut, and so on above for ever.
fn inner_cuts(node: &Object) -> Vec<Key> {
    let mut cuts = Vec::new();
    let (mut size, mut links) = (0, 0);
    for slot in 0..node.slots() {
        let bytes = node.cell_size(slot);
        if links >= 2 && node.slots() - slot >= 2 && size + bytes > INNER_BYTES / 2 {
            cuts.push(node.key(slot).into());
            (size, links) = (0, 0);
        }
        size += bytes;
        links += 1;
    }
    cuts
}
