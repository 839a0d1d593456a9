//! The invariants of a whole tree.

use crate::{Error, Transaction, Tree};
use fulmar_kv::{Interval, Object, ObjectId, linked};
use std::sync::Arc;

impl Transaction {
    /// Looks for breaches of the tree's invariants, as [`check`] does. A store elsewhere is not looked at: who keeps it
    /// checks it.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`].
    pub fn check(&self, tree: Tree) -> Result<Vec<String>, Error> {
        let _here = self.database.store.stay();
        match self.database.store.kept() {
            Some(kv) if !self.is_new(tree) => check(tree, &[kv]),
            _ => Ok(Vec::new()),
        }
    }
}

/// Looks for breaches of a tree's invariants, whose nodes are in these shards: links lead to nodes one level below whose
/// fences are exactly what their parent gives them, cells lie in order within fences. An empty list means that it is sound.
///
/// Nodes are read one after the other: call it when nobody commits, or a restructuring may look like a breach.
///
/// # Errors
/// [`Error::Io`] and [`Error::Corrupt`].
pub fn check(tree: Tree, shards: &[fulmar_kv::Database]) -> Result<Vec<String>, Error> {
    let mut check = Check { tree, shards, problems: Vec::new() };
    match check.read(tree.root())? {
        None => check.note("the root is missing".into()),
        Some(root) => {
            if *root.interval() != Interval::everything() {
                check.note("the root's fences leave keys out".into());
            }
            check.below(&root)?;
        }
    }
    Ok(check.problems)
}

struct Check<'a> {
    tree: Tree,
    shards: &'a [fulmar_kv::Database],
    problems: Vec<String>,
}

impl Check<'_> {
    fn note(&mut self, problem: String) {
        self.problems.push(format!("tree {}: {problem}", self.tree.0));
    }

    fn read(&self, object: ObjectId) -> Result<Option<Arc<Object>>, Error> {
        let shard = self.shards.iter().find(|kv| kv.shard() == object.shard());
        shard.map_or(Ok(None), |kv| kv.read(object))
    }

    fn below(&mut self, node: &Object) -> Result<(), Error> {
        let id = node.id().0;
        node.problems().into_iter().for_each(|problem| self.note(problem));
        if node.root() != self.tree.root() {
            self.note(format!("object {id} belongs to another tree"));
        }
        if node.level() == 0 {
            return Ok(());
        }
        if node.slots() == 0 || node.key(0) != node.interval().low() {
            self.note(format!("object {id} does not begin with a link"));
        }
        for slot in 0..node.slots() {
            let next = (slot + 1 < node.slots()).then(|| node.key(slot + 1));
            let high = next.or_else(|| node.interval().high());
            let fences = Interval::new(node.key(slot).into(), high.map(Into::into));
            let Some(child) = linked(node.value(slot)) else {
                self.note(format!("object {id}: a link is damaged"));
                continue;
            };
            match self.read(child)? {
                None => self.note(format!("object {} is missing", child.0)),
                Some(child) if child.level() + 1 != node.level() || *child.interval() != fences => {
                    let found = child.interval();
                    self.note(format!("object {} has fences {found:?}, not {fences:?}", child.id().0));
                }
                Some(child) => self.below(&child)?,
            }
        }
        Ok(())
    }
}
