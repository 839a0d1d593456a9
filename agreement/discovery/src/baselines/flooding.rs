//! Flooding: each tells all it knows to all it knows, every round. ⌈log₂ D⌉ + 1 rounds and n² messages in each of the last.

use crate::Bits;
use crate::model::{Machine, Round};
use fulmar_node::NodeId;

/// A machine that floods.
#[derive(Clone, Debug)]
pub struct Flooding {
    me: NodeId,
    known: Bits,
}

impl Flooding {
    /// One of so many machines, that knows these.
    pub fn new(me: NodeId, machines: usize, neighbours: &[NodeId]) -> Self {
        Self { me, known: Bits::new(machines, neighbours.iter().copied().chain([me])) }
    }
}

impl Machine for Flooding {
    type Message = Bits;

    fn act(&mut self, round: &mut Round<'_, Bits>) {
        for to in self.known.iter().filter(|to| *to != self.me) {
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
