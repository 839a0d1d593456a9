//! What is to become of leaves in which several shards have a part, for whoever has all shards do it.

use fulmar_kv::{Key, ObjectId, ShardId};

/// A change of a tree's shape that another shard than that of its root has a part in, or would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// The tree's root.
    pub root: ObjectId,
    /// The leaf that it is about.
    pub leaf: ObjectId,
    /// Where that begins.
    pub low: Key,
    /// What is to become of the leaf.
    pub shape: Shape,
}

/// What is to become of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It is cut at these keys.
    Split(Vec<Key>),
    /// It is joined with a neighbour, if one of them is empty or they come to no more than so many bytes.
    Join(u64),
    /// It goes to another shard.
    Move(ShardId),
    /// It ends to exist, as its tree does.
    Remove,
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
