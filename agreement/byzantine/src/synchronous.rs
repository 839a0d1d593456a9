//! What runs in rounds.

use std::fmt::Debug;
use std::hash::Hash;

/// What processes agree on.
pub trait Value: Copy + Ord + Hash + Debug + Wire {}

impl<V: Copy + Ord + Hash + Debug + Wire> Value for V {}

/// What can be sent as bytes.
pub trait Wire: Sized {
    /// Appends the bytes that [`decode`](Wire::decode) takes.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// What the front of `bytes` stands for, and takes it off; `None` of anything that `encode` does not write. Whoever wrote
    /// `bytes` may have meant harm: what this allocates is bounded by a constant times their length.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
}

impl Wire for u8 {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(*self);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        bytes.split_off_first().copied()
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        bytes.split_off(..N)?.try_into().ok()
    }
}

/// A correct process of a protocol that goes in synchronous rounds: in each, every process sends one message to all, and receives
/// what the others sent in the same round. Processes are numbered from 0 to n − 1; rounds from 1.
pub trait Synchronous {
    /// What is sent.
    type Message: Clone + Wire;
    /// What is agreed on.
    type Value: Value;

    /// What it sends in `round` to all others.
    fn send(&mut self, round: u32) -> Self::Message;

    /// What came in `round`, by sender: `None` of those that sent nothing, or nothing that is a message. Its own place is not looked at.
    fn receive(&mut self, round: u32, messages: &[Option<Self::Message>]);

    /// What it decided, once it has.
    fn decision(&self) -> Option<Self::Value>;

    /// Whether it takes part no longer: the others need nothing more of it, nor it of them.
    fn has_halted(&self) -> bool;
}
