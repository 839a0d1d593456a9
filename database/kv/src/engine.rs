//! What the key-value layer asks of a storage engine, and the engines that give it.

mod catalogue;
mod fjall;
mod in_directory;
mod memory;

pub(crate) use catalogue::Catalogue;
pub use fjall::{Fjall, WriteLimit};
pub use in_directory::open_engine;
pub use memory::Memory;

use crate::{Error, ObjectId};

/// A place that keeps entries: byte strings under an object and a sequence number, and a few facts under names.
///
/// `write` is called by one thread at a time, `load` by any number beside it.
pub trait Engine: Send + Sync {
    /// Makes all of `batch` readable, or after an error none of it or the engine is not written to again. What is
    /// written survives the end of the process.
    fn write(&self, batch: Batch) -> Result<(), Error>;

    /// When it returns, everything written before survives the loss of power.
    fn sync(&self) -> Result<(), Error>;

    /// Visits the entries of `object` in ascending order of sequence numbers. Of a batch that is being written it sees
    /// all or nothing.
    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error>;

    /// The first object from `from` on that has entries.
    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error>;

    /// The fact stored under `name`.
    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;

    /// About so many bytes of entries were replaced by little: if that is much of all, their space is given back soon.
    fn compact(&self, _replaced: u64) {}

    /// Whether it may have made or changed files since it was opened.
    fn changes_files(&self) -> bool {
        true
    }

    /// About how many bytes it takes on the disk, if it knows.
    fn bytes(&self) -> u64 {
        0
    }

    /// The most bytes of a batch that it takes, if they are not [owed](Batch::is_owed).
    fn largest(&self) -> u64 {
        u64::MAX
    }

    /// Whether entries can be loaded. Of an engine that keeps none, all objects stay in memory, and it is told of each
    /// only when it comes, by an empty entry, and when it goes.
    fn keeps_entries(&self) -> bool {
        true
    }
}

/// Writes that happen together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In the order in which they happen.
    pub writes: Vec<EngineWrite>,
    /// Whether it must be taken however large it is: it carries out what was agreed to before, or only changes how a tree is stored, which
    /// would get no smaller by waiting.
    pub is_owed: bool,
}

impl Batch {
    /// About the memory that it takes in a table, or in a message.
    pub fn bytes(&self) -> u64 {
        self.writes.iter().map(EngineWrite::bytes).sum()
    }
}

impl EngineWrite {
    /// About the memory that it takes.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Put { entry, .. } => entry.len(),
            Self::Remove { .. } => 0,
            Self::Fact { name, value } => name.len() + value.len(),
        };
        bytes as u64 + 64
    }
}

/// One write of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineWrite {
    /// Stores an entry.
    Put {
        /// Whose entry.
        object: ObjectId,
        /// Its place among that object's entries.
        sequence: u64,
        /// What to store.
        entry: Vec<u8>,
    },
    /// Removes an entry.
    Remove {
        /// Whose entry.
        object: ObjectId,
        /// Its place among that object's entries.
        sequence: u64,
    },
    /// Stores a fact.
    Fact {
        /// Its name.
        name: &'static str,
        /// What to store.
        value: Vec<u8>,
    },
}
