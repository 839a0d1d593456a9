//! Chunks for frames to be sent, which sockets at one queue have in common.
//!
//! Whose a chunk is, is told by the ring of those that are done: there the kernel puts the chunk of a frame that nobody needs any more, and at
//! once that of a frame which the interface drops; for all sockets in one ring.

use super::chunks::Chunks;
use super::ring::Ring;

/// The chunks that nobody has.
#[derive(Debug)]
pub(super) struct Stock {
    chunks: Chunks,
    done: Ring<u64>,
    /// The last is the one most likely in a processor's cache.
    free: Vec<u64>,
    /// Who has each of the others: what was withdrawn may be done after all.
    holders: Vec<Option<usize>>,
}

impl Stock {
    /// All of these chunks are free; those of frames that were sent come back by the ring.
    pub(super) fn new(chunks: Chunks, done: Ring<u64>) -> Self {
        let (free, holders) = chunks.each().map(|chunk| (chunk, None)).unzip();
        Self { chunks, done, free, holders }
    }

    /// Takes back what is done.
    pub(super) fn collect(&mut self) {
        while let Some(address) = self.done.take() {
            self.give(address);
        }
        self.done.release();
    }

    /// A chunk, for the socket of this number.
    pub(super) fn take(&mut self, holder: usize) -> Option<u64> {
        let address = self.free.pop()?;
        self.holders[self.chunks.place(address)?] = Some(holder);
        Some(address)
    }

    /// Nothing, if it is free, or none at all: some kernels say that of an entry for nothing, too, that it is done.
    pub(super) fn give(&mut self, address: u64) {
        if let Some(place) = self.chunks.place(address)
            && self.holders[place].take().is_some()
        {
            self.free.push(address);
        }
    }

    /// Whether that socket has the chunk that begins at this address.
    pub(super) fn is_with(&self, holder: usize, address: u64) -> bool {
        self.chunks.place(address).is_some_and(|place| self.holders[place] == Some(holder))
    }
}
