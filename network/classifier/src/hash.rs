//! Hashes of rows of words, each of which goes on from that of the words before: a stage's from that of the stages before it
//! (section 5.3).

use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// What hashes depend on besides the words: who does not know it cannot tell which rows have the same.
#[derive(Clone, Copy)]
pub(crate) struct Seed {
    start: u64,
    factor: u64,
}

impl Seed {
    pub(crate) fn new(seed: u64) -> Self {
        let state = FixedState::with_seed(seed);
        Self { start: state.hash_one(0), factor: state.hash_one(1) | 1 }
    }

    /// That of no words.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// That of one word more: both halves of a product, so that each bit of the word counts in the upper bits as in the lower.
    pub(crate) fn and(self, hash: u64, word: u64) -> u64 {
        let (low, high) = (hash ^ word).carrying_mul(self.factor, 0);
        low ^ high
    }
}

/// What tables keep of a hash: its upper half.
pub(crate) type Hash = u32;

/// The part of a hash that tables keep.
pub(crate) fn kept(hash: u64) -> Hash {
    (hash >> 32) as Hash
}
