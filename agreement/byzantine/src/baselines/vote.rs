//! The message of phase king and phase queen.

use crate::{Value, Wire};

/// A value, or that there is none: the sender is undecided, or it is not its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote<V>(pub Option<V>);

impl<V: Value> Wire for Vote<V> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.0.is_some().into());
        if let Some(value) = &self.0 {
            value.encode(bytes);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match u8::decode(bytes)? {
            0 => Some(Self(None)),
            1 => V::decode(bytes).map(|value| Self(Some(value))),
            _ => None,
        }
    }
}

/// The value with most votes, and how many; of equals the least. None without votes.
pub(super) fn plurality<V: Value>(votes: impl Iterator<Item = V>) -> Option<(V, usize)> {
    let mut sorted: Vec<V> = votes.collect();
    sorted.sort_unstable();
    // Of equals the last is taken, which is the least when they come from above.
    sorted.chunk_by(|a, b| a == b).rev().map(|same| (same[0], same.len())).max_by_key(|&(_, count)| count)
}

/// What came from the others, with what this process says itself in its place.
pub(super) fn with_own<V: Value>(
    messages: &[Option<Vote<V>>],
    me: usize,
    own: Option<V>,
) -> impl Iterator<Item = V> {
    let said = move |(from, message): (usize, &Option<Vote<V>>)| {
        if from == me { own } else { message.and_then(|vote| vote.0) }
    };
    messages.iter().enumerate().filter_map(said)
}
