//! Members that lie, for tests: how what a correct one would send is turned into something else.

use crate::frame::Frame;
use crate::key::Digest;
use fulmar_node::Random;
use std::mem;
use thiserror::Error;

/// How a member lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// It is there, and says nothing in any round.
    Silence,
    /// It tells members with odd numbers that its value is another.
    Equivocate,
    /// It sends bytes that mean nothing.
    Garbage,
    /// It sends what belongs to a round in the next.
    Late,
    /// It says in each round again what it has said in the first, and all that twice.
    Replay,
}

/// The word is not a strategy's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no strategy: expected silence, equivocate, garbage, late or replay")]
pub struct UnknownStrategy(String);

impl std::str::FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(word: &str) -> Result<Self, UnknownStrategy> {
        match word {
            "silence" => Ok(Self::Silence),
            "equivocate" => Ok(Self::Equivocate),
            "garbage" => Ok(Self::Garbage),
            "late" => Ok(Self::Late),
            "replay" => Ok(Self::Replay),
            _ => Err(UnknownStrategy(word.into())),
        }
    }
}

/// What a member that lies has said to one other.
#[derive(Clone, Default)]
struct Said {
    first: Vec<u8>,
    before: Vec<u8>,
}

pub(crate) struct Liar {
    strategy: Strategy,
    /// What it would say if it did not lie.
    value: Digest,
    said: Vec<Said>,
    random: Random,
}

impl Liar {
    pub(crate) fn new(strategy: Strategy, value: Digest, members: usize) -> Self {
        Self { strategy, value, said: vec![Said::default(); members], random: Random::new(1) }
    }

    /// What it sends to `member` in place of `frame`, one after the other.
    pub(crate) fn send(&mut self, member: usize, frame: &Frame) -> Vec<Vec<u8>> {
        let said = &mut self.said[member];
        let Frame::Round { round, message } = frame else {
            let may_speak =
                *frame == Frame::Ready || matches!(self.strategy, Strategy::Equivocate | Strategy::Replay);
            return if may_speak { vec![frame.to_bytes()] } else { Vec::new() };
        };
        match self.strategy {
            Strategy::Silence => Vec::new(),
            Strategy::Equivocate => {
                let mut message = message.clone();
                if member % 2 == 1 {
                    replace(&mut message, self.value.as_bytes(), Digest::of(b"a lie").as_bytes());
                }
                vec![Frame::Round { round: *round, message }.to_bytes()]
            }
            Strategy::Garbage => {
                let message = message.iter().map(|_| self.random.below(256).to_le_bytes()[0]).collect();
                vec![Frame::Round { round: *round, message }.to_bytes()]
            }
            Strategy::Late => {
                let before = mem::replace(&mut said.before, frame.to_bytes());
                if before.is_empty() { Vec::new() } else { vec![before] }
            }
            Strategy::Replay => {
                if *round == 1 {
                    said.first.clone_from(message);
                }
                let bytes = Frame::Round { round: *round, message: said.first.clone() }.to_bytes();
                vec![bytes.clone(), bytes]
            }
        }
    }
}

/// Puts `new` wherever `old` stands.
fn replace(bytes: &mut [u8], old: &[u8; 32], new: &[u8; 32]) {
    let mut rest = bytes;
    while let Some(at) = rest.windows(old.len()).position(|window| window == old) {
        let (here, beyond) = rest[at..].split_at_mut(old.len());
        here.copy_from_slice(new);
        rest = beyond;
    }
}
