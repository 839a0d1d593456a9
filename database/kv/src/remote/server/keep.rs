//! What a server needs of the layer that knows trees.

use super::super::news::Reshape;
use crate::{Error, Key, ObjectId};

/// Who keeps the structure that commits leave behind, which the server itself knows nothing of.
pub trait Keep: Send {
    /// These objects were written by a commit that has taken place. Answers what is to be done about those whose tree has
    /// its root in another group.
    ///
    /// # Errors
    /// What the database says. It is the next commit's to report.
    fn after(&mut self, written: &[ObjectId]) -> Result<Vec<Reshape>, Error>;

    /// What the tree with this root, which is of this group, has where `key` belongs; nothing, if its root is a leaf.
    ///
    /// # Errors
    /// What the database says.
    fn linked(&self, root: ObjectId, key: &[u8]) -> Result<Option<Linked>, Error>;

    /// Whether the group, which came after the others, has what all of them have: see `fulmar_dbt`.
    ///
    /// # Errors
    /// What the database says.
    fn is_welcome(&self) -> Result<bool, Error>;

    /// Cuts a leaf of this group at these keys, if it still can be cut there; if its tree has its root in another group,
    /// answers what that is to do.
    ///
    /// # Errors
    /// What the database says.
    fn split(&mut self, leaf: ObjectId, cuts: Vec<Key>) -> Result<Vec<Reshape>, Error>;

    /// Leaves of the trees whose roots are in this group, from a place on that [`Walked::next`] has given; nothing, at the
    /// end.
    ///
    /// # Errors
    /// What the database says.
    fn leaves(&self, from: Option<(ObjectId, Key)>) -> Result<Option<Walked>, Error>;
}

/// Leaves of a tree, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The tree's root.
    pub root: ObjectId,
    /// The links to them, by where they begin.
    pub links: Vec<(Key, ObjectId)>,
    /// Where to go on, with the root of the tree there; nothing, if they are the last.
    pub next: Option<(ObjectId, Key)>,
}

/// A place in the lowest inner node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The node.
    pub parent: ObjectId,
    /// Its links, by where the leaves begin.
    pub links: Vec<(Key, ObjectId)>,
    /// Which of them it is.
    pub at: usize,
}

impl Linked {
    /// The links to the node's left neighbour and it, and to it and its right neighbour, as far as there are any.
    pub fn pairs(&self) -> impl Iterator<Item = &[(Key, ObjectId); 2]> {
        self.links[self.at.saturating_sub(1)..].array_windows().take(if self.at > 0 { 2 } else { 1 })
    }
}
