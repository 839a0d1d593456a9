//! Deterministic discovery (Kutten, Peleg and Vishkin 2003), rebuilt from the connectivity algorithm that it rests on (Shiloach and
//! Vishkin 1982): in each phase leaders hook onto the largest leader next to them if that is larger than they are; those that are
//! stagnant, larger than all next to them and hooked onto by none, hook onto any. So each tree has two clusters at least, and there are
//! at most log₂ n phases. Trees are not flattened by jumping pointers: what joins is handed on to the root, which tells the members.

use super::united::{Message, United};
use crate::model::{Machine, Round};
use fulmar_node::NodeId;

/// Ask, hand on, reply, hook, hook if stagnant, hand on.
const PHASE: u32 = 6;

/// A machine of the deterministic algorithm.
#[derive(Clone, Debug)]
pub struct KuttenPelegVishkin {
    united: United,
}

impl KuttenPelegVishkin {
    /// One of so many machines, that knows these.
    pub fn new(me: NodeId, machines: usize, neighbours: &[NodeId]) -> Self {
        Self { united: United::new(me, machines, neighbours) }
    }
}

impl Machine for KuttenPelegVishkin {
    type Message = Message;

    fn act(&mut self, round: &mut Round<'_, Message>) {
        let united = &mut self.united;
        if round.number.is_multiple_of(PHASE) {
            united.begin();
        }
        let is_stagnant = united.joined.is_empty();
        united.keep_house(round);
        if round.number % PHASE == 1 {
            united.hand_on(round);
        }
        let Some(cluster) = &united.cluster else { return };
        let next_to = || united.requests.iter().copied().chain(united.reply);
        let largest = next_to().max();
        match round.number % PHASE {
            0 => {
                let neighbour = cluster.neighbours.last().copied();
                united.ask(neighbour, round);
            }
            2 => united.reply(round),
            3 => {
                if let Some(other) = largest.filter(|other| *other > united.me) {
                    united.join(other, round);
                }
            }
            4 if is_stagnant => {
                if let Some(other) = largest {
                    united.join(other, round);
                }
            }
            _ => {}
        }
    }

    fn answer(&self) -> Message {
        self.united.answer()
    }

    fn hear(&mut self, message: Message) {
        self.united.hear(message);
    }

    fn known(&self) -> usize {
        self.united.known
    }
}
