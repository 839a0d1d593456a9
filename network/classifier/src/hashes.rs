//! The hashes of a stage (section 5.3).

use crate::hash::Hash;
use crate::table::Table;

/// Hashes, and of how many rules each is.
#[derive(Clone, Default)]
pub(crate) struct Hashes(Table<(Hash, u32)>);

fn is(hash: Hash) -> impl Fn(&(Hash, u32)) -> bool {
    move |(other, _)| *other == hash
}

impl Hashes {
    /// Whether some rule has this one; once in ten thousand times it is said of one that none has, and more bits are consulted
    /// than need be.
    #[inline]
    pub(crate) fn may_have(&self, hash: Hash) -> bool {
        self.0.may_have(hash)
    }

    pub(crate) fn insert(&mut self, hash: Hash) {
        match self.0.find_mut(hash, is(hash)) {
            Some((_, count)) => *count += 1,
            None => self.0.insert(hash, (hash, 1)),
        }
    }

    pub(crate) fn remove(&mut self, hash: Hash) {
        let Some((_, count)) = self.0.find_mut(hash, is(hash)) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(hash, is(hash));
        }
    }
}
