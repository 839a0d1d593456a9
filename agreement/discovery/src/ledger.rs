//! Who knows whom, kept apart from what the machines believe.

use crate::model::place;
use crate::{Content, Topology};
use fulmar_node::NodeId;

/// All that every machine was told: n² bits.
#[derive(Clone, Debug)]
pub struct Ledger {
    words_each: usize,
    known: Vec<u64>,
}

impl Ledger {
    /// Each machine knows itself and its neighbours.
    pub fn new(topology: &Topology) -> Self {
        let words_each = topology.machines().div_ceil(64);
        let mut ledger = Self { words_each, known: vec![0; words_each * topology.machines()] };
        for node in topology.nodes() {
            ledger.learn(node, node);
            topology.neighbours(node).iter().for_each(|&neighbour| ledger.learn(node, neighbour));
        }
        ledger
    }

    /// Whether `who` was ever told the address of `whom`.
    pub fn knows(&self, who: NodeId, whom: NodeId) -> bool {
        self.known[place(who) * self.words_each + place(whom) / 64] & (1 << (place(whom) % 64)) != 0
    }

    /// How many machines `who` knows, itself included.
    pub fn count(&self, who: NodeId) -> usize {
        let words = &self.known[place(who) * self.words_each..][..self.words_each];
        words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// `who` was told all of this.
    pub fn hear(&mut self, who: NodeId, message: &impl Content) {
        message.each_address(&mut |address| self.learn(who, address));
    }

    fn learn(&mut self, who: NodeId, whom: NodeId) {
        self.known[place(who) * self.words_each + place(whom) / 64] |= 1 << (place(whom) % 64);
    }
}
