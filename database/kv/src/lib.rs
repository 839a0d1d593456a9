//! Transactional key-value storage: objects made of ordered cells, with snapshots.
//!
//! *Known as:* multi-version concurrency control (MVCC), snapshot isolation, optimistic concurrency control, a storage engine (write-ahead
//! log, LSM tree), garbage collection of versions.
//!
//! # The problem
//!
//! Many clients read and change small pieces of shared data at once. Each wants to see one consistent state for as
//! long as it looks, wait for nobody, and know when it commits that nobody changed the same pieces meanwhile.
//!
//! # The idea
//!
//! Transactions are at the lowest layer, where the data are (Yesquel, section 3): all above, the tree too, is built of
//! them. An *object* holds the *cells*, keys and values, of one key [`Interval`]; a cell keeps a version for every commit
//! that some open [`Snapshot`] still tells apart. A transaction reads a snapshot, buffers its changes on the client's
//! side, and sends them as one [`Commit`]: the first of two that change the same cell wins (snapshot isolation).
//! Cells move from object to object by [`Restructuring`]s, which carry versions along and therefore are invisible to
//! transactions; a commit that names a wrong object is refused as misplaced, and its sender searches again.
//!
//! # The structure
//!
//! - `object`: an immutable state of an object, and how the next one is made of it.
//! - `commit`: what a transaction asks for.
//! - `core`: the deterministic core, a function of objects and commits.
//! - [`engine`]: the trait of what stores entries on disk, with [`engine::Fjall`] and [`engine::Memory`].
//! - [`Storage`]: objects in a [cache](Cache) over an engine, the open snapshots, and this shard's part in transactions of several.
//! - `database`: the driver among threads, with group commit.
//! - [`Numbers`]: which numbers of new entries are taken.
//! - [`Store`]: what of all this the tree above needs.
//! - `directory`: the directory, its format and its holder.
//!
//! # What is guaranteed
//!
//! A commit takes place as a whole or not at all, also across a crash; once acknowledged it survives what its
//! [`Durability`] says. A snapshot never changes. After a failed write nothing is committed until the database is
//! opened again. Not guaranteed: serializability (write skew is possible; see [`Commit::required`]).
//!
//! # Example
//!
//! ```
//! use fulmar_kv::{Change, Commit, Database, Durability, ObjectId, Options, Restructuring, Write};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::transient(&Options::default())?;
//! let object = ObjectId(7);
//! let change = Change { key: (*b"key").into(), value: Some((*b"value").into()) };
//! let commit = Commit {
//!     snapshot: database.newest(),
//!     restructurings: vec![Restructuring::Create { object }],
//!     writes: vec![Write { object, cleared: vec![], changes: vec![change].into() }],
//!     ..Commit::default()
//! };
//! let at = database.commit(commit, Durability::Synced)?;
//! let found = database.read(object)?.expect("created above");
//! assert_eq!(found.get(b"key", at), Some(&b"value"[..]));
//! # Ok(())
//! # }
//! ```

mod cache;
mod commit;
mod core;
mod database;
mod directory;
mod directory_lock;
pub mod engine;
mod error;
mod frozen;
mod interval;
mod key;
mod numbers;
mod object;
mod ownership;
mod storage;
mod store;

pub use crate::core::{Outcome, Outcomes, Pending, Prepare, STATE, Undecided};
pub use cache::Cache;
pub use commit::{Commit, Moved, Restructuring, Write, cell, link, linked, put_cells};
pub use database::{Database, Durability, Options};
pub use error::{Error, Refusal};
pub use interval::Interval;
pub use key::Key;
pub use numbers::Numbers;
pub use object::{Change, Changes, Encoded, KeyAndValue, Object, View};
pub use ownership::follow_with_file;
pub use storage::Storage;
pub use store::{Basis, Exclusion, Expected, Interruption, Part, ShardCounts, Snapshot, Store};

/// From here on numbers of objects are the storage's to give.
const FIRST_FRESH: u64 = 1 << 32;
/// Numbers of objects below are the caller's to give. Those from here to [`FIRST_FRESH`] are of a storage's own records.
const FIRST_RESERVED: u64 = FIRST_FRESH - 2;

/// Names an object: the shard that holds it, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u64);

impl ObjectId {
    const NUMBER_BITS: u32 = 48;

    /// The object of this number, below 2⁴⁸, in a shard.
    pub const fn new(shard: ShardId, number: u64) -> Self {
        Self((shard.0 as u64) << Self::NUMBER_BITS | number)
    }

    /// The shard that holds it.
    pub const fn shard(self) -> ShardId {
        ShardId((self.0 >> Self::NUMBER_BITS) as u16)
    }

    /// Its number in the shard.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }

    /// Whether it is of a storage's own records, which nobody else may change.
    const fn is_reserved(self) -> bool {
        self.number() >= FIRST_RESERVED && self.number() < FIRST_FRESH
    }
}

/// Names a shard: objects that are kept together, and whose commits are one sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The next number of a message or record, if it can name a shard.
    pub fn decode(input: &mut fulmar_coding::Reader<'_>) -> Option<Self> {
        u16::try_from(input.varint()?).ok().map(Self)
    }
}

/// Names a transaction of several shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TransactionId {
    /// Whose it is: no two clients have the same.
    pub client: u64,
    /// Which of the client's it is.
    pub number: u64,
}

impl TransactionId {
    /// Whether it is of a client: the first bit is for servers' own.
    pub const fn is_of_client(self) -> bool {
        self.client >> 63 == 0
    }
}

/// A point in the order of commits; zero is before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// What comes from elsewhere is no later than this. Twice as far the records of a shard could not be restored, so commits can follow
    /// on it for as long as anybody lives.
    pub const LAST: Self = Self(1 << 62);

    /// The next number of a message, if it can be a time.
    pub fn decode(input: &mut fulmar_coding::Reader<'_>) -> Option<Self> {
        input.varint().map(Self).filter(|at| *at <= Self::LAST)
    }
}
