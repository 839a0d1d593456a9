//! Clusters (section 2.1): machines that follow one of them.

use crate::Marks;
use fulmar_node::NodeId;
use std::sync::Arc;

/// What a leader knows of its cluster. Once said it does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The leader first.
    pub members: Vec<NodeId>,
    /// Γ(C) of the paper: whom members know outside the cluster. Each once, no member.
    pub neighbours: Vec<NodeId>,
}

impl Cluster {
    /// A machine alone.
    pub(crate) fn of(me: NodeId, neighbours: &[NodeId]) -> Self {
        Self { members: vec![me], neighbours: neighbours.to_vec() }
    }

    /// Takes in clusters that have joined.
    pub(crate) fn absorb(&mut self, joined: &[Arc<Self>], marks: &mut Marks) {
        if joined.is_empty() {
            return;
        }
        for other in joined {
            self.members.extend(&other.members);
            self.neighbours.extend(&other.neighbours);
        }
        marks.clear();
        self.members.iter().for_each(|&member| _ = marks.insert(member));
        self.neighbours.retain(|&neighbour| marks.insert(neighbour));
    }

    /// How many addresses it is to say it.
    pub(crate) fn addresses(&self) -> u64 {
        (self.members.len() + self.neighbours.len()) as u64
    }

    /// All of them.
    pub(crate) fn each_address(&self, hand: &mut dyn FnMut(NodeId)) {
        self.members.iter().chain(&self.neighbours).copied().for_each(hand);
    }
}
