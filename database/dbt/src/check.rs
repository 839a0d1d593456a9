//! The invariants of a whole tree.

use crate::search::Target;
use crate::{Database, Error, Transaction, Tree};
use fulmar_kv::{Interval, Object, Part, Snapshot, Store};

impl Transaction {
    /// Looks for breaches of the tree's invariants: links lead to nodes one level below whose fences are exactly what
    /// their parent gives them, cells lie in order within fences. An empty list means that it is sound.
    ///
    /// A store elsewhere is not looked at: who keeps it checks it.
    ///
    /// Nodes are read one after the other: call it when nobody else commits, or a restructuring may look like a breach.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`].
    pub fn check(&self, tree: Tree) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        let _here = self.database.store.stay();
        if !self.is_new(tree) && self.database.store.kept().is_some() {
            let root = self.database.root(tree, Target::At(&[]), &self.snapshot)?;
            if *root.interval() != Interval::everything() {
                problems.push(format!("tree {}: the root's fences leave keys out", tree.0));
            }
            self.database.check_below(tree, &root, &mut problems)?;
        }
        Ok(problems)
    }
}

impl Database {
    fn check_below(&self, tree: Tree, node: &Object, problems: &mut Vec<String>) -> Result<(), Error> {
        problems.extend(node.problems().into_iter().map(|p| format!("tree {}: {p}", tree.0)));
        if node.root() != tree.root() {
            problems.push(format!("tree {}: object {} belongs to another tree", tree.0, node.id().0));
        }
        if node.level() == 0 {
            return Ok(());
        }
        let links = self.links(node)?;
        if links.first().is_none_or(|(first, _)| **first != *node.interval().low()) {
            problems.push(format!("tree {}: object {} does not begin with a link", tree.0, node.id().0));
        }
        for (n, (low, child)) in links.iter().enumerate() {
            let high = links.get(n + 1).map(|(key, _)| &**key).or_else(|| node.interval().high());
            let fences = Interval::new(low.clone(), high.map(Into::into));
            match self.store.read(*child, Part::From(low), &Snapshot::none())? {
                None => problems.push(format!("tree {}: object {} is missing", tree.0, child.0)),
                Some(child) if child.level() + 1 != node.level() || *child.interval() != fences => {
                    let found = child.interval();
                    let id = child.id().0;
                    problems
                        .push(format!("tree {}: object {id} has fences {found:?}, not {fences:?}", tree.0));
                }
                Some(child) => self.check_below(tree, &child, problems)?,
            }
        }
        Ok(())
    }
}
