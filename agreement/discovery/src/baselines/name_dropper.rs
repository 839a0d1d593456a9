//! Name-Dropper (Harchol-Balter, Leighton and Lewin 1999): each tells all it knows to one that it knows, at random, every round.

use crate::Bits;
use crate::model::{Machine, Round};
use fulmar_node::{NodeId, Random};

/// A machine that drops names.
#[derive(Clone, Debug)]
pub struct NameDropper {
    me: NodeId,
    known: Bits,
    random: Random,
}

impl NameDropper {
    /// One of so many machines, that knows these, and has chance of its own.
    pub fn new(me: NodeId, machines: usize, neighbours: &[NodeId], random: Random) -> Self {
        Self { me, known: Bits::new(machines, neighbours.iter().copied().chain([me])), random }
    }
}

impl Machine for NameDropper {
    type Message = Bits;

    fn act(&mut self, round: &mut Round<'_, Bits>) {
        // One of the others: itself stands for the last.
        let others = self.known.count() - 1;
        let chosen = self.known.nth(self.random.index(others)).filter(|chosen| *chosen != self.me);
        if let Some(to) = chosen.or_else(|| self.known.nth(others)).filter(|_| others > 0) {
            round.push(to, self.known.clone());
        }
    }

    fn answer(&self) -> Bits {
        self.known.clone()
    }

    fn hear(&mut self, message: Bits) {
        self.known.add(&message);
    }

    fn known(&self) -> usize {
        self.known.count()
    }
}
