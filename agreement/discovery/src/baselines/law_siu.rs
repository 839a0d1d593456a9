//! Absorption (Law and Siu 2000), after what is said of it: leaders toss coins, and with heads ask a neighbour at random, with tails
//! take in who asks. A cluster is absorbed with probability 1/4 in a phase of four rounds, which is their 4 log₄⸝₃ n + 1 expected rounds.

use super::united::{Message, United};
use crate::model::{Machine, Round};
use fulmar_node::{NodeId, Random};

/// Ask, hand on, take in, join.
const PHASE: u32 = 4;

/// A machine that absorbs or is absorbed.
#[derive(Clone, Debug)]
pub struct LawSiu {
    united: United,
    random: Random,
    /// How its coin fell in this phase.
    is_heads: bool,
}

impl LawSiu {
    /// One of so many machines, that knows these, and has chance of its own.
    pub fn new(me: NodeId, machines: usize, neighbours: &[NodeId], random: Random) -> Self {
        Self { united: United::new(me, machines, neighbours), random, is_heads: false }
    }
}

impl Machine for LawSiu {
    type Message = Message;

    fn act(&mut self, round: &mut Round<'_, Message>) {
        let Self { united, random, is_heads } = self;
        if round.number.is_multiple_of(PHASE) {
            united.begin();
        }
        united.keep_house(round);
        if round.number % PHASE == 1 {
            united.hand_on(round);
        }
        let Some(cluster) = &united.cluster else { return };
        match round.number % PHASE {
            0 => {
                *is_heads = random.one_in(2);
                let neighbour = random.choose(&cluster.neighbours).copied();
                united.ask(neighbour.filter(|_| *is_heads), round);
            }
            2 if !*is_heads => united.reply(round),
            3 => {
                if let Some(other) = united.reply {
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
