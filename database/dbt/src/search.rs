//! From a key to the node that holds it.
//!
//! Nodes are read one after the other while others restructure the tree, and inner nodes may be copies made before, so a
//! link may lead to a node that has given the key away, or is gone. Fences tell; the search backs up and begins anew, a
//! level higher each time, with nodes that are read afresh.
//!
//! *Known as:* descent of a B-link tree, fence keys.

use crate::{Database, Error, Transaction, Tree};
use fulmar_kv::{Interval, Key, Object, ObjectId, Part, Snapshot, Store, linked};
use std::io;
use std::sync::Arc;

/// A search that goes astray this often has met a tree whose links and fences disagree, not a restructuring: if the tree is
/// near. Of a tree on servers it has met some that disagree for too long.
const ASTRAY: usize = 1_000;
/// After so often it is led by somebody who has not heard of a restructuring, such as a server that leads a shard no more.
const MISLED: usize = 16;

/// Where a descent ended.
enum Descent {
    Found(Arc<Object>),
    /// At the last of these nodes, which begin with the root: it does not hold what is looked for.
    Astray(Vec<ObjectId>),
}

impl Database {
    /// The node of `level` that `part` begins in; of a leaf, the part that `part` begins in, as `at` sees it.
    pub(crate) fn find(
        &self,
        tree: Tree,
        part: Part<'_>,
        level: u8,
        at: &Snapshot,
    ) -> Result<Arc<Object>, Error> {
        let found = self.find_or_root(tree, part, level, at)?;
        if found.level() < level {
            return Err(self.corrupt(format!("tree {} has no level {level}", tree.0)));
        }
        Ok(found)
    }

    /// The same, or the root if that is lower.
    fn find_or_root(
        &self,
        tree: Tree,
        part: Part<'_>,
        level: u8,
        at: &Snapshot,
    ) -> Result<Arc<Object>, Error> {
        for attempt in 1..ASTRAY {
            let root = self.root(tree, part, at)?;
            if root.level() < level {
                return Ok(root);
            }
            match self.descend(&root, part, level, at)? {
                Descent::Found(node) => return Ok(node),
                Descent::Astray(path) => {
                    // Either of the last two may be the old one.
                    self.store.mistrust(&path[path.len().saturating_sub(attempt + 1)..]);
                    if attempt >= MISLED {
                        self.store.reconsider()?;
                    }
                }
            }
        }
        if self.is_far() {
            let what = format!("tree {}: servers disagree about where its leaves are; try again", tree.0);
            let source = io::Error::new(io::ErrorKind::TimedOut, what);
            return Err(Error::Io { path: self.store.path().into(), source });
        }
        Err(self.corrupt(format!("tree {}: links and fences disagree", tree.0)))
    }

    /// The node of `level` that `part` begins in, found from `top`.
    fn descend(&self, top: &Arc<Object>, part: Part<'_>, level: u8, at: &Snapshot) -> Result<Descent, Error> {
        let mut node = None;
        let mut path = Vec::new();
        loop {
            let above: &Arc<Object> = node.as_ref().unwrap_or(top);
            if above.level() == level && above.holds(part) {
                return Ok(Descent::Found(node.unwrap_or_else(|| top.clone())));
            }
            path.push(above.id());
            if above.level() <= level {
                return Ok(Descent::Astray(path));
            }
            let child = self.link(above, part)?;
            match self.store.read(child, part, at)? {
                Some(next) if next.level() + 1 == above.level() && next.holds(part) => {
                    if next.id() != child {
                        self.store.excuse(above.id());
                    }
                    node = Some(next);
                }
                _ => {
                    path.push(child);
                    return Ok(Descent::Astray(path));
                }
            }
        }
    }

    fn link(&self, node: &Object, part: Part<'_>) -> Result<ObjectId, Error> {
        node.link_towards(part).ok_or_else(|| self.without_links(node))
    }

    fn without_links(&self, node: &Object) -> Error {
        self.corrupt(format!("object {}: an inner node without links", node.id().0))
    }

    /// The root, or if that is a leaf the part of it that `part` begins in.
    pub(crate) fn root(&self, tree: Tree, part: Part<'_>, at: &Snapshot) -> Result<Arc<Object>, Error> {
        let root = self.store.read(tree.root(), part, at)?;
        root.ok_or_else(|| self.corrupt(format!("tree {} does not exist", tree.0)))
    }

    /// The leaf that holds `key` and the keys that it holds, by the link that leads to it.
    pub(crate) fn place(&self, tree: Tree, key: &[u8], at: &Snapshot) -> Result<Place, Error> {
        let root = Place { leaf: tree.root(), interval: Interval::everything(), above: tree.root() };
        if self.store.is_leaf(tree.root()) {
            return Ok(root);
        }
        let part = Part::From(key);
        let above = self.find_or_root(tree, part, 1, at)?;
        if above.level() == 0 {
            return Ok(root);
        }
        let next = above.upper_bound(key);
        let link = next.checked_sub(1).and_then(|slot| Some((above.key(slot), linked(above.value(slot))?)));
        let (low, leaf) = link.ok_or_else(|| self.without_links(&above))?;
        let high = if next < above.slots() { Some(above.key(next)) } else { above.interval().high() };
        let interval = Interval::new(low.into(), high.map(Into::into));
        Ok(Place { leaf, interval, above: above.id() })
    }

    /// The node that links to `node`, or would if the tree had not changed since.
    pub(crate) fn parent(&self, tree: Tree, node: &Object) -> Result<Arc<Object>, Error> {
        self.find(tree, Part::From(node.interval().low()), node.level() + 1, &Snapshot::none())
    }

    /// The links of an inner node: first keys and nodes.
    pub(crate) fn links(&self, node: &Object) -> Result<Vec<(Key, ObjectId)>, Error> {
        let damaged = || self.corrupt(format!("object {}: a link is damaged", node.id().0));
        (0..node.slots())
            .map(|slot| Ok((node.key(slot).into(), linked(node.value(slot)).ok_or_else(damaged)?)))
            .collect()
    }
}

/// A leaf that was not looked at.
pub(crate) struct Place {
    pub(crate) leaf: ObjectId,
    pub(crate) interval: Interval,
    /// The node that says so.
    pub(crate) above: ObjectId,
}

impl Transaction {
    /// The part of a leaf that `part` begins in, found from the root as this transaction last saw it: an old one will do, as
    /// long as its links do not lead astray.
    pub(crate) fn leaf(&self, tree: Tree, part: Part<'_>) -> Result<Arc<Object>, Error> {
        if !self.database.is_far() {
            return self.leaf_at(tree, part, &self.snapshot);
        }
        let mut last = self.last.borrow_mut();
        if let Some((of, leaf)) = &*last
            && *of == tree
            && leaf.holds(part)
        {
            return Ok(leaf.clone());
        }
        let leaf = self.leaf_at(tree, part, &self.snapshot)?;
        *last = Some((tree, leaf.clone()));
        Ok(leaf)
    }

    /// The part of a leaf that holds `key`, as everybody sees it by now, with all that it has visible; for a transaction
    /// that reads nothing else. Nothing, if the transaction has read or written already, or the objects are near.
    pub(crate) fn newest_leaf(&self, tree: Tree, key: &[u8]) -> Result<Option<Arc<Object>>, Error> {
        if self.known_snapshot().is_some() || self.is_changed() || !self.database.is_far() {
            return Ok(None);
        }
        let once = Snapshot::once(self.snapshot.expected());
        self.leaf_at(tree, Part::From(key), &once).map(Some)
    }

    fn leaf_at(&self, tree: Tree, part: Part<'_>, at: &Snapshot) -> Result<Arc<Object>, Error> {
        if let Some((known, root)) = &*self.root.borrow()
            && *known == tree
            && let Descent::Found(leaf) = self.database.descend(root, part, 0, at)?
        {
            return Ok(leaf);
        }
        let root = self.database.root(tree, part, at)?;
        let leaf = match self.database.descend(&root, part, 0, at)? {
            Descent::Found(leaf) => leaf,
            Descent::Astray(_) => self.database.find(tree, part, 0, at)?,
        };
        *self.root.borrow_mut() = Some((tree, root));
        Ok(leaf)
    }
}
