//! A set of machines that is emptied in no time.

use crate::model::place;
use fulmar_node::NodeId;

/// A set of machines. A real one would have a hash table for it; simulated machines, of which one acts at a time, share these marks,
/// so that sets of a million members cost what is put into them.
#[derive(Clone, Debug)]
pub struct Marks {
    /// The last generation in which a machine was marked.
    marked: Vec<u32>,
    /// Those marked in it are in the set. Never 0.
    generation: u32,
}

impl Marks {
    /// An empty set of up to `machines`.
    pub fn new(machines: usize) -> Self {
        Self { marked: vec![0; machines], generation: 1 }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.marked.fill(0);
            self.generation = 1;
        }
    }

    /// Puts a machine in; whether it was not there.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let marked = &mut self.marked[place(node)];
        let is_new = *marked != self.generation;
        *marked = self.generation;
        is_new
    }

    /// Whether a machine is in it.
    pub fn contains(&self, node: NodeId) -> bool {
        self.marked[place(node)] == self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_there_until_it_is_emptied() {
        let mut marks = Marks::new(3);
        // Also when generations begin anew.
        marks.generation = u32::MAX - 1;
        for _ in 0..3 {
            assert!(marks.insert(NodeId(1)) && !marks.insert(NodeId(1)));
            assert!(marks.contains(NodeId(1)) && !marks.contains(NodeId(2)));
            marks.clear();
            assert!(!marks.contains(NodeId(0)) && !marks.contains(NodeId(1)));
        }
    }
}
