//! Sets of machines of which most are in.

use crate::Content;
use crate::model::{node, place};
use fulmar_node::NodeId;
use std::sync::Arc;

/// A set of machines, a bit for each; what was said of it stays what it was.
#[derive(Clone, Debug)]
pub struct Bits {
    words: Arc<Vec<u64>>,
    count: usize,
}

impl Bits {
    /// These of so many machines.
    pub fn new(machines: usize, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut words = vec![0_u64; machines.div_ceil(64)];
        nodes.into_iter().for_each(|node| words[place(node) / 64] |= 1 << (place(node) % 64));
        let count = ones(&words);
        Self { words: Arc::new(words), count }
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Puts these in, too.
    pub fn add(&mut self, others: &Self) {
        let is_known = |(own, other): (&u64, &u64)| other & !own == 0;
        if self.words.iter().zip(others.words.iter()).all(is_known) {
            return;
        }
        let words = Arc::make_mut(&mut self.words);
        for (own, other) in words.iter_mut().zip(others.words.iter()) {
            *own |= other;
        }
        self.count = ones(words);
    }

    /// In the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let next = |rest: &u64| Some(rest & (rest - 1)).filter(|rest| *rest != 0);
            let rests = std::iter::successors(Some(word).filter(|word| *word != 0), next);
            rests.map(move |rest| node(at * 64 + rest.trailing_zeros() as usize))
        })
    }

    /// The one before which so many are, in the order of addresses.
    pub fn nth(&self, mut before: usize) -> Option<NodeId> {
        for (at, word) in self.words.iter().enumerate() {
            let here = word.count_ones() as usize;
            if before < here {
                let rest = (0..before).fold(*word, |rest, _| rest & (rest - 1));
                return Some(node(at * 64 + rest.trailing_zeros() as usize));
            }
            before -= here;
        }
        None
    }
}

fn ones(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

impl Content for Bits {
    const CONTROL_BITS: u64 = 0;

    fn addresses(&self) -> u64 {
        self.count as u64
    }

    fn each_address(&self, hand: &mut dyn FnMut(NodeId)) {
        self.iter().for_each(hand);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let nodes = [0, 3, 63, 64, 130].map(NodeId);
        let mut bits = Bits::new(131, nodes);
        assert_eq!(bits.iter().collect::<Vec<_>>(), nodes);
        let said = bits.clone();
        bits.add(&Bits::new(131, [NodeId(64), NodeId(65)]));
        assert_eq!((bits.count(), bits.iter().count(), said.count()), (6, 6, 5));
        for (before, node) in bits.iter().enumerate() {
            assert_eq!(bits.nth(before), Some(node));
        }
        assert_eq!(bits.nth(6), None);
    }
}
