//! From a key to the node that holds it.
//!
//! Nodes are read one after the other while others restructure the tree, so a link may lead to a node that has just
//! given the key away, or is gone. Fences tell; the search begins anew, above.

use crate::{Database, Error, Transaction, Tree};
use fulmar_kv::{Key, Object, ObjectId, linked};
use std::sync::Arc;

/// A search that goes astray this often has met a tree whose links and fences disagree, not a restructuring.
const ASTRAY: usize = 1_000;

/// What a search looks for.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// The node whose interval contains the key.
    At(&'a [u8]),
    /// The node that ends at this key or contains keys just below it; `None`: the last one.
    Before(Option<&'a [u8]>),
}

impl Target<'_> {
    pub(crate) fn is_in(self, node: &Object) -> bool {
        let interval = node.interval();
        match (self, interval.high()) {
            (Target::At(key), _) => node.covers(key),
            (Target::Before(Some(key)), high) => interval.low() < key && high.is_none_or(|high| key <= high),
            (Target::Before(None), high) => high.is_none(),
        }
    }

    /// The link to follow.
    fn link(self, node: &Object) -> Option<usize> {
        let after = match self {
            Target::At(key) => node.upper_bound(key),
            Target::Before(Some(key)) => node.lower_bound(key),
            Target::Before(None) => node.slots(),
        };
        after.checked_sub(1)
    }
}

impl Database {
    /// The node of `level` that `target` is in.
    pub(crate) fn find(&self, tree: Tree, target: Target<'_>, level: u8) -> Result<Arc<Object>, Error> {
        for _ in 0..ASTRAY {
            let root = self.root(tree)?;
            if root.level() < level {
                return Err(self.corrupt(format!("tree {} has no level {level}", tree.0)));
            }
            if let Some(found) = self.descend(&root, target, level)? {
                return Ok(found);
            }
            self.kv.settle();
        }
        Err(self.corrupt(format!("tree {}: links and fences disagree", tree.0)))
    }

    /// The node of `level` that `target` is in, found from `top`; `None` if the links lead astray.
    fn descend(
        &self,
        top: &Arc<Object>,
        target: Target<'_>,
        level: u8,
    ) -> Result<Option<Arc<Object>>, Error> {
        let mut node = None;
        loop {
            let above: &Arc<Object> = node.as_ref().unwrap_or(top);
            if above.level() == level {
                return Ok(Some(node.unwrap_or_else(|| top.clone())));
            }
            let child = target.link(above).and_then(|slot| linked(above.value(slot)));
            let Some(child) = child else {
                return Err(self.corrupt(format!("object {}: an inner node without links", above.id().0)));
            };
            match self.kv.read(child)? {
                Some(next) if next.level() + 1 == above.level() && target.is_in(&next) => node = Some(next),
                _ => return Ok(None),
            }
        }
    }

    pub(crate) fn root(&self, tree: Tree) -> Result<Arc<Object>, Error> {
        let root = self.kv.read(tree.root())?;
        root.ok_or_else(|| self.corrupt(format!("tree {} does not exist", tree.0)))
    }

    pub(crate) fn leaf(&self, tree: Tree, key: &[u8]) -> Result<Arc<Object>, Error> {
        self.find(tree, Target::At(key), 0)
    }

    /// The node that links to `node`, or would if the tree had not changed since.
    pub(crate) fn parent(&self, tree: Tree, node: &Object) -> Result<Arc<Object>, Error> {
        self.find(tree, Target::At(node.interval().low()), node.level() + 1)
    }

    /// The links of an inner node: first keys and nodes.
    pub(crate) fn links(&self, node: &Object) -> Result<Vec<(Key, ObjectId)>, Error> {
        let damaged = || self.corrupt(format!("object {}: a link is damaged", node.id().0));
        (0..node.slots())
            .map(|slot| Ok((node.key(slot).into(), linked(node.value(slot)).ok_or_else(damaged)?)))
            .collect()
    }
}

impl Transaction {
    /// The leaf that `target` is in, found from the root as this transaction last saw it: an old one will do, as long
    /// as its links do not lead astray.
    pub(crate) fn leaf(&self, tree: Tree, target: Target<'_>) -> Result<Arc<Object>, Error> {
        if let Some((known, root)) = &*self.root.borrow()
            && *known == tree
            && let Some(leaf) = self.database.descend(root, target, 0)?
        {
            return Ok(leaf);
        }
        let root = self.database.root(tree)?;
        let leaf = match self.database.descend(&root, target, 0)? {
            Some(leaf) => leaf,
            None => self.database.find(tree, target, 0)?,
        };
        *self.root.borrow_mut() = Some((tree, root));
        Ok(leaf)
    }
}
