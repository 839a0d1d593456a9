//! Which numbers concurrent transactions have given to what others do not see yet.
//!
//! Whoever numbers new entries of a tree takes one more than the largest. Two transactions on the same snapshot would take
//! the same number and conflict, though they add different entries; so each passes over what others have picked.

use crate::{ObjectId, Timestamp};
use fulmar_locks::Mutex;
use std::collections::BTreeMap;

/// No transaction numbers entries of more trees.
const MOST_TREES: usize = 10_000;

/// Numbers picked by transactions that are open, each of which belongs to an owner.
pub struct Numbers<Owner>(Mutex<State<Owner>>);

struct State<Owner> {
    trees: BTreeMap<ObjectId, Picked<Owner>>,
    /// The trees in which each owner has picked.
    owners: BTreeMap<Owner, Vec<ObjectId>>,
}

/// What was picked in one tree.
struct Picked<Owner> {
    /// The largest number that each open transaction has picked.
    open: Vec<(Owner, i64)>,
    /// The largest that a committed transaction had picked, and when the last such commit was: transactions whose
    /// snapshot is older do not see that entry.
    committed: Option<(i64, Timestamp)>,
}

impl<Owner> Default for Numbers<Owner> {
    fn default() -> Self {
        Self(Mutex::new(State { trees: BTreeMap::new(), owners: BTreeMap::new() }))
    }
}

impl<Owner> Default for Picked<Owner> {
    fn default() -> Self {
        Self { open: Vec::new(), committed: None }
    }
}

impl<Owner: Copy + Ord> Numbers<Owner> {
    /// Picks so many numbers of the tree with this root: from `next` on, or from a larger one if others have picked that.
    /// Returns the first. Close to the largest number there is, they may be fewer, but one.
    pub fn pick(&self, owner: Owner, snapshot: Timestamp, tree: ObjectId, next: i64, count: i64) -> i64 {
        let mut state = self.0.lock();
        let State { trees, owners } = &mut *state;
        let picked = trees.entry(tree).or_default();
        let hidden = picked.committed.filter(|(_, at)| *at > snapshot).map(|(number, _)| number);
        let others = picked.open.iter().filter(|(other, _)| *other != owner).map(|(_, number)| *number);
        let first = others.chain(hidden).max().map_or(next, |taken| next.max(taken.saturating_add(1)));
        let last = first.saturating_add(count.saturating_sub(1).max(0));
        match picked.open.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, largest)) => *largest = last.max(*largest),
            None => {
                let trees = owners.entry(owner).or_default();
                // What is not noted may lead to a conflict, and to nothing worse.
                if trees.len() < MOST_TREES {
                    trees.push(tree);
                    picked.open.push((owner, last));
                }
            }
        }
        first
    }

    /// Forgets what no snapshot from `watermark` on passes over.
    pub fn forget(&self, watermark: Timestamp) {
        let passes = |picked: &Picked<Owner>| {
            !picked.open.is_empty() || picked.committed.is_some_and(|(_, at)| at > watermark)
        };
        self.0.lock().trees.retain(|_, picked| passes(picked));
    }

    /// All who have picked.
    pub fn owners(&self) -> Vec<Owner> {
        self.0.lock().owners.keys().copied().collect()
    }

    /// Forgets what `owner` has picked, or remembers it as committed.
    pub fn end(&self, owner: Owner, committed: Option<Timestamp>) {
        let mut state = self.0.lock();
        let State { trees, owners } = &mut *state;
        for tree in owners.remove(&owner).unwrap_or_default() {
            let Some(picked) = trees.get_mut(&tree) else { continue };
            let Some(place) = picked.open.iter().position(|(other, _)| *other == owner) else { continue };
            let (_, number) = picked.open.swap_remove(place);
            if let Some(at) = committed {
                // Who has committed first need not end first.
                let (largest, last) = picked.committed.unwrap_or((number, at));
                picked.committed = Some((number.max(largest), at.max(last)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: ObjectId = ObjectId(7);

    #[test]
    fn alone_nothing_is_passed_over() {
        let numbers = Numbers::default();
        assert_eq!(numbers.pick(1, Timestamp(0), TREE, 5, 1), 5);
        assert_eq!(numbers.pick(1, Timestamp(0), TREE, 5, 1), 5);
        numbers.end(1, Some(Timestamp(1)));
        assert_eq!(numbers.pick(1, Timestamp(1), TREE, 2, 1), 2);
    }

    /// A client may name any tree, and any number of them.
    #[test]
    fn nothing_is_kept_that_nobody_passes_over() {
        let numbers = Numbers::default();
        for tree in 0..2 * MOST_TREES as u64 {
            assert_eq!(numbers.pick(1, Timestamp(3), ObjectId(tree), 5, 1), 5);
        }
        numbers.forget(Timestamp(4));
        assert_eq!(numbers.0.lock().trees.len(), MOST_TREES);
        numbers.pick(2, Timestamp(3), ObjectId(0), 5, 1);
        numbers.end(1, None);
        numbers.end(2, Some(Timestamp(9)));
        numbers.forget(Timestamp(8));
        assert_eq!(
            numbers.pick(3, Timestamp(8), ObjectId(0), 5, 1),
            7,
            "it does not see what was committed at 9"
        );
        numbers.end(3, None);
        numbers.forget(Timestamp(9));
        assert!(numbers.0.lock().trees.is_empty());
    }

    #[test]
    fn who_has_committed_first_may_end_last() {
        let numbers = Numbers::default();
        assert_eq!(numbers.pick(1, Timestamp(0), TREE, 5, 1), 5);
        assert_eq!(numbers.pick(2, Timestamp(0), TREE, 5, 1), 6);
        numbers.end(2, Some(Timestamp(9)));
        numbers.end(1, Some(Timestamp(7)));
        assert_eq!(numbers.pick(3, Timestamp(8), TREE, 6, 1), 7, "6 was committed at 9");
    }

    #[test]
    fn what_others_picked_is_passed_over() {
        let numbers = Numbers::default();
        assert_eq!(numbers.pick(1, Timestamp(0), TREE, 5, 10), 5);
        assert_eq!(numbers.pick(2, Timestamp(0), TREE, 5, 1), 15);
        numbers.end(1, Some(Timestamp(1)));
        numbers.end(2, None);
        assert_eq!(
            numbers.pick(3, Timestamp(0), TREE, 5, 1),
            15,
            "the committed entries are not in this snapshot"
        );
        assert_eq!(numbers.pick(3, Timestamp(0), TREE, i64::MAX, 9), i64::MAX);
    }
}
