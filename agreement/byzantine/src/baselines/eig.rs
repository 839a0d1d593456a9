//! Exponential information gathering (Pease, Shostak and Lamport 1980), the form with a tree (Bar-Noy, Dolev, Dwork and Strong 1992).

use super::sequences::{Sequences, count};
use crate::runs::Cost;
use crate::{Synchronous, Value, Wire};

/// What the nodes of one level of the sender's tree hold, but for those whose sequence has the sender in it, in lexicographic
/// order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level<V>(pub Vec<V>);

impl<V: Value> Wire for Level<V> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.0.len() as u64).to_le_bytes());
        self.0.iter().for_each(|value| value.encode(bytes));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let length = usize::try_from(u64::from_le_bytes(Wire::decode(bytes)?)).ok()?;
        // Grown as values come: a liar's length allocates nothing.
        let mut values = Vec::new();
        while values.len() < length {
            let before = bytes.len();
            values.push(V::decode(bytes)?);
            if bytes.len() == before {
                return None;
            }
        }
        Some(Self(values))
    }
}

/// A correct process that gathers, for t + 1 rounds, who said that who said … that who begins with what, and takes majorities from
/// the leaves up.
#[derive(Clone, Debug)]
pub struct Eig<V> {
    n: usize,
    t: usize,
    me: usize,
    default: V,
    /// Level k has a value for each of the sequences of length k, in lexicographic order: the children of a node are neighbours.
    levels: Vec<Vec<V>>,
    decision: Option<V>,
    nodes: u64,
}

impl<V: Value> Eig<V> {
    /// Process `me` of `n`, of which up to `t` may lie. `default` stands for what was not said, and where there is no majority.
    pub fn new(n: usize, t: usize, me: usize, input: V, default: V) -> Self {
        Self { n, t, me, default, levels: vec![vec![input]], decision: None, nodes: 1 }
    }

    /// Values of a message of this round, as they are sent or have to be.
    pub fn message_length(n: usize, round: u32) -> usize {
        count(n - 1, level_of(round))
    }

    fn resolve(&mut self) -> V {
        let mut resolved = self.levels.pop().expect("there is the root");
        while let Some(parents) = self.levels.pop() {
            let children = resolved.chunks_exact(self.n - self.levels.len());
            resolved = children.map(|children| majority(children).unwrap_or(self.default)).collect();
            assert_eq!(resolved.len(), parents.len(), "each has its children");
        }
        resolved[0]
    }
}

/// The level of which a round's messages are.
fn level_of(round: u32) -> usize {
    usize::try_from(round - 1).expect("rounds are few")
}

fn has(sequence: &[u8], process: usize) -> bool {
    sequence.iter().any(|&member| usize::from(member) == process)
}

/// The value that more than half of them are (Boyer and Moore 1981).
fn majority<V: Value>(values: &[V]) -> Option<V> {
    let mut candidate = None;
    let mut lead = 0_usize;
    for value in values {
        if lead == 0 {
            candidate = Some(*value);
        }
        lead = if candidate.as_ref() == Some(value) { lead + 1 } else { lead - 1 };
    }
    candidate.filter(|candidate| 2 * values.iter().filter(|value| *value == candidate).count() > values.len())
}

impl<V: Value> Synchronous for Eig<V> {
    type Message = Level<V>;
    type Value = V;

    fn send(&mut self, round: u32) -> Level<V> {
        let level = &self.levels[level_of(round)];
        let mut sequences = Sequences::new(self.n, level_of(round));
        let mut said = Vec::with_capacity(Self::message_length(self.n, round));
        for value in level {
            let sequence = sequences.current().expect("one for each value");
            if !has(sequence, self.me) {
                said.push(*value);
            }
            sequences.advance();
        }
        Level(said)
    }

    fn receive(&mut self, round: u32, messages: &[Option<Level<V>>]) {
        let length = Self::message_length(self.n, round);
        let well_formed =
            messages.iter().map(|message| message.as_ref().filter(|level| level.0.len() == length));
        // Where each message is read: all list their sequences in the order in which these come here.
        let mut readers: Vec<_> = well_formed.map(|message| message.map(|level| level.0.iter())).collect();
        let mut sequences = Sequences::new(self.n, level_of(round));
        let mut level = Vec::with_capacity(count(self.n, level_of(round) + 1));
        for own in &self.levels[level_of(round)] {
            let sequence = sequences.current().expect("one for each value");
            for (from, reader) in readers.iter_mut().enumerate().filter(|(from, _)| !has(sequence, *from)) {
                let said = reader.as_mut().and_then(Iterator::next);
                level.push(if from == self.me { *own } else { *said.unwrap_or(&self.default) });
            }
            sequences.advance();
        }
        self.nodes += level.len() as u64;
        self.levels.push(level);
        if level_of(round) == self.t {
            self.decision = Some(self.resolve());
        }
    }

    fn decision(&self) -> Option<V> {
        self.decision
    }

    fn has_halted(&self) -> bool {
        self.decision.is_some()
    }
}

impl<V> Cost for Eig<V> {
    fn nodes(&self) -> u64 {
        self.nodes
    }
}
