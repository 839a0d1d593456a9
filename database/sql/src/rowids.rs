//! Which rowids concurrent transactions have given to rows that others do not see yet.
//!
//! SQLite numbers a new row one more than the largest in the table. Two transactions on the same snapshot would pick the
//! same number and conflict, though they insert different rows; so each passes over what others have picked.

use fulmar_dbt::{Timestamp, Tree};
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Rowids(Mutex<BTreeMap<u32, Picked>>);

/// What was picked in one table.
#[derive(Default)]
struct Picked {
    /// The largest rowid that each open transaction has picked.
    open: Vec<(Owner, i64)>,
    /// The largest that a committed transaction had picked, and when the last such commit was: transactions whose
    /// snapshot is older do not see that row.
    committed: Option<(i64, Timestamp)>,
}

/// Names an open transaction: the connection's handle.
pub(crate) type Owner = usize;

impl Rowids {
    /// Picks a rowid: `next`, or larger if others have picked that. Says too whether it is the owner's first there.
    pub(crate) fn pick(&self, owner: Owner, snapshot: Timestamp, tree: Tree, next: i64) -> (i64, bool) {
        let mut tables = self.0.lock();
        let picked = tables.entry(tree.0).or_default();
        let hidden = picked.committed.filter(|(_, at)| *at > snapshot).map(|(row, _)| row);
        let others = picked.open.iter().filter(|(other, _)| *other != owner).map(|(_, row)| *row);
        let row = others.chain(hidden).max().map_or(next, |taken| next.max(taken.saturating_add(1)));
        match picked.open.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, largest)) => {
                *largest = row.max(*largest);
                (row, false)
            }
            None => {
                picked.open.push((owner, row));
                (row, true)
            }
        }
    }

    /// Forgets what `owner` picked in `trees`, or remembers it as committed.
    pub(crate) fn end(&self, owner: Owner, trees: &[Tree], committed: Option<Timestamp>) {
        let mut tables = self.0.lock();
        for tree in trees {
            let Some(picked) = tables.get_mut(&tree.0) else { continue };
            let Some(place) = picked.open.iter().position(|(other, _)| *other == owner) else { continue };
            let (_, row) = picked.open.swap_remove(place);
            if let Some(at) = committed {
                let before = picked.committed.map_or(row, |(largest, _)| largest);
                picked.committed = Some((row.max(before), at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: Tree = Tree(7);

    #[test]
    fn alone_nothing_is_passed_over() {
        let rowids = Rowids::default();
        assert_eq!(rowids.pick(1, Timestamp(0), TREE, 5), (5, true));
        assert_eq!(rowids.pick(1, Timestamp(0), TREE, 5), (5, false));
        rowids.end(1, &[TREE], Some(Timestamp(1)));
        assert_eq!(rowids.pick(1, Timestamp(1), TREE, 2), (2, true));
    }

    #[test]
    fn what_others_picked_is_passed_over() {
        let rowids = Rowids::default();
        assert_eq!(rowids.pick(1, Timestamp(0), TREE, 5).0, 5);
        assert_eq!(rowids.pick(2, Timestamp(0), TREE, 5).0, 6);
        rowids.end(1, &[TREE], Some(Timestamp(1)));
        rowids.end(2, &[TREE], None);
        assert_eq!(rowids.pick(3, Timestamp(0), TREE, 5).0, 6, "the committed row is not in this snapshot");
        assert_eq!(rowids.pick(3, Timestamp(0), TREE, i64::MAX).0, i64::MAX);
    }
}
