//! What an execution takes.

use super::length;
use crate::Wire;

/// What a process holds, counted by itself.
pub trait Cost {
    /// Most nodes of trees, or values where there are none, that it has held at a time.
    fn nodes(&self) -> u64;
}

/// Taken by the correct processes of an execution, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Messages, each to all.
    pub messages: u64,
    /// Bytes of all of them, each counted once.
    pub bytes: u64,
    /// Bytes of the longest.
    pub longest_message: u64,
    /// Most nodes that one process held.
    pub most_nodes: u64,
}

impl Measures {
    pub(super) fn sent(&mut self, message: &impl Wire) {
        let length = length(message);
        self.messages += 1;
        self.bytes += length;
        self.longest_message = self.longest_message.max(length);
    }

    pub(super) fn received(&mut self, process: &impl Cost) {
        self.most_nodes = self.most_nodes.max(process.nodes());
    }

    /// The greater of each of two executions.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        Self {
            messages: self.messages.max(other.messages),
            bytes: self.bytes.max(other.bytes),
            longest_message: self.longest_message.max(other.longest_message),
            most_nodes: self.most_nodes.max(other.most_nodes),
        }
    }
}
