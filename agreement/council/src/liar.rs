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
    /// It says what it has said to whomever, in any order, altered, cut, of other rounds, or not at all: as chance has it from this seed.
    Anything(u64),
}

/// The word is not a strategy's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no strategy: expected silence, equivocate, garbage, late, replay or anything-SEED")]
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
            _ => {
                let seed = word.strip_prefix("anything-").and_then(|seed| seed.parse().ok());
                seed.map(Self::Anything).ok_or_else(|| UnknownStrategy(word.into()))
            }
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
    /// What it would have said to anybody, without its lengths.
    frames: Vec<Vec<u8>>,
    random: Random,
}

impl Liar {
    pub(crate) fn new(strategy: Strategy, value: Digest, members: usize) -> Self {
        let seed = if let Strategy::Anything(seed) = strategy { seed } else { 1 };
        let said = vec![Said::default(); members];
        Self { strategy, value, said, frames: Vec::new(), random: Random::new(seed) }
    }

    /// What it sends to `member` in place of `frame`, one after the other.
    pub(crate) fn send(&mut self, member: usize, frame: &Frame) -> Vec<Vec<u8>> {
        if matches!(self.strategy, Strategy::Anything(_)) {
            return self.anything(frame);
        }
        let said = &mut self.said[member];
        let Frame::Round { round, message } = frame else {
            let may_speak =
                *frame == Frame::Ready || matches!(self.strategy, Strategy::Equivocate | Strategy::Replay);
            return if may_speak { vec![frame.to_bytes()] } else { Vec::new() };
        };
        match self.strategy {
            // The latter has been heeded.
            Strategy::Silence | Strategy::Anything(_) => Vec::new(),
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

    /// What is said where `frame` would be.
    fn anything(&mut self, frame: &Frame) -> Vec<Vec<u8>> {
        let due = frame.to_bytes();
        self.frames.push(due[4..].to_vec());
        let mut said = Vec::new();
        if !self.random.one_in(4) {
            said.push(due);
        }
        for _ in 0..[0, 0, 0, 1, 1, 2, 8][self.random.index(7)] {
            said.push(self.lie());
        }
        said
    }

    /// Something of a form that is nearly right.
    fn lie(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut body = self.frames[random.index(self.frames.len())].clone();
        let mut length = None;
        match random.below(7) {
            0 => {}
            1 => body.truncate(random.index(body.len())),
            2 => {
                let at = random.index(body.len());
                body[at] = random.below(256).to_le_bytes()[0];
            }
            3 => body.extend(vec![0xff; random.index(2_000)]),
            // A length that is none, or of which not all comes.
            4 => length = Some([0, u32::MAX, 4 << 20][random.index(3)]),
            // Of another round.
            5 if body[0] == 1 => body[4] = random.below(6).to_le_bytes()[0],
            _ => {
                let other = &self.frames[random.index(self.frames.len())];
                body.truncate(body.len() / 2);
                body.extend(&other[other.len() / 2..]);
            }
        }
        let length = length.unwrap_or_else(|| u32::try_from(body.len()).unwrap_or(u32::MAX));
        [&length.to_be_bytes()[..], &body].concat()
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
