//! The distributed balanced tree: ordered trees whose nodes are objects of [`fulmar_kv`].
//!
//! *Known as:* a distributed B+ tree, B-link tree: fence keys, right-sibling links, page splits, a cache of inner pages.
//!
//! # The problem
//!
//! SQL tables and indexes are ordered maps from byte strings to byte strings, too large for one node, changed by many
//! clients at once. Two clients that touch different rows must not get into each other's way, even if the rows are
//! neighbours, and a map must grow and shrink while all this goes on.
//!
//! # The idea
//!
//! A tree is built *above* transactions (Yesquel, section 3): a leaf is an object whose cells are entries, an inner node
//! is an object whose cells are links to the nodes below. Every node knows its *fences*, the interval of keys it is
//! responsible for. A transaction buffers its changes by tree and key; only its commit finds out which leaves hold
//! them. Splits and merges are transactions of their own kind that move cells with all their versions
//! ([`fulmar_kv::Restructuring`]), so nobody's snapshot or commit notices them: a search that lands outside of a node's
//! fences, or a commit refused because a cell has moved, just searches again.
//!
//! # The structure
//!
//! - `transaction`: a snapshot and the changes on top of it, marks to undo to.
//! - `cursor`: a place in a tree, walking both ways through snapshot and changes.
//! - `search`: from a key to the node that holds it.
//! - `commit`: which leaves a transaction's changes go to, and which leaves have to be split for them.
//! - [`Site`]: where the objects are: in this process, or elsewhere.
//! - `welcome`: shards that a database gets later, on new servers.
//! - `balance`: inner nodes split, sparse nodes merged, dropped trees removed.
//! - `check`: the invariants of a whole tree.
//!
//! # The paper's names
//!
//! | in the paper (section 3) | here |
//! | --- | --- |
//! | embedded query processor | `fulmar_sql` |
//! | storage engine, distributed balanced tree (DBT) | this crate: a [`Database`] of trees |
//! | node | an object, named by an [`ObjectId`]: a leaf, or an inner node (`reshape`) |
//! | transactional key-value storage | [`fulmar_kv`], behind a [`Store`] |
//! | storage server | `fulmar_cluster::Server` |
//! | moving data across nodes atomically | [`Reshape`], which comes to [`fulmar_kv::Restructuring`]s |
//! | snapshot isolation, multi-version concurrency control | [`Transaction`], [`Timestamp`]; the versions are [`fulmar_kv`]'s |
//!
//! Not in the paper, which leaves them to a later one: fences, searches that go back, and who splits a node.
//!
//! # What is guaranteed
//!
//! Snapshot isolation, as [`fulmar_kv`] gives it, per key. A root never changes its name, so a tree's name is its
//! root's. A cursor stays valid whatever its own transaction or others change.
//!
//! Not guaranteed: serializability. Two transactions that each read what the other writes both commit, unless one says
//! what it relies on ([`Transaction::require_unchanged`], [`Transaction::touch`]). A transaction's changes are in memory
//! until its end.
//!
//! # Example
//!
//! ```
//! use fulmar_dbt::{Cursor, Database, Durability, Options};
//! # fn main() -> Result<(), fulmar_dbt::Error> {
//! let database = Database::transient(&Options::default())?;
//! let mut writer = database.begin()?;
//! let tree = writer.create_tree()?;
//! writer.put(tree, b"b", b"2")?;
//! writer.put(tree, b"a", b"1")?;
//! writer.commit(Durability::Synced)?;
//! let reader = database.begin()?;
//! let mut cursor = Cursor::new(tree);
//! assert!(cursor.first(&reader)?);
//! assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"1"[..]));
//! # Ok(())
//! # }
//! ```

mod balance;
mod cells;
mod check;
mod commit;
mod cursor;
mod reshape;
mod search;
mod site;
mod transaction;
mod welcome;

pub use check::check;
pub use cursor::{Cursor, Seek};
pub use fulmar_kv::{
    Durability, Error, Exclusion, Interruption, Numbers, ObjectId, Options, Store, Timestamp,
};
pub use reshape::{Linked, Reshape, Shape, Walked};
pub use site::{Held, Site};
pub use transaction::{Mark, Put, Transaction};

use fulmar_kv::{Commit, Part, Refusal, Restructuring, ShardId, Snapshot};
use fulmar_locks::Mutex;
use site::Where;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Names a tree: the shard that holds its root, and its number there. `Tree(0)` and `Tree(1)` always exist. Each shard has
/// the cells of `Tree(0)`, for those who rely on them to find them where they are anyway; its keys that begin with `0xff`
/// are this crate's, and each shard's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tree(pub u32);

impl Tree {
    const NUMBER_BITS: u32 = 22;

    fn new(shard: ShardId, number: u32) -> Self {
        Self(u32::from(shard.0) << Self::NUMBER_BITS | number)
    }

    /// The one of this root.
    fn of(root: ObjectId) -> Option<Self> {
        let number = u32::try_from(root.number()).ok().filter(|number| *number < 1 << Self::NUMBER_BITS)?;
        Some(Self::new(root.shard(), number))
    }

    /// What each shard has.
    fn facts(shard: ShardId) -> Self {
        Self::new(shard, 0)
    }

    fn shard(self) -> ShardId {
        ShardId((self.0 >> Self::NUMBER_BITS) as u16)
    }

    /// The object that is its root, always.
    pub fn root(self) -> ObjectId {
        ObjectId::new(self.shard(), u64::from(self.0 & ((1 << Self::NUMBER_BITS) - 1)))
    }
}

/// An open database; clones share it. The last one to go closes it.
#[derive(Clone)]
pub struct Database {
    /// If the storage is in this process, the shape of its trees is kept here.
    store: Arc<Site>,
    /// Dropped trees, and the commits after which no snapshot reads them.
    dropped: Arc<Mutex<Vec<(Timestamp, Tree)>>>,
}

/// In [`Tree::facts`], what begins so is a shard's own.
const OWN: u8 = 0xff;
/// In the first [`Tree::facts`], how many shards have a copy of it, if more than when the database was made.
const SHARDS: &[u8] = b"\xffgroups";
/// In [`Tree::facts`], that a shard that came later has got its copy.
const WELCOME: &[u8] = b"\xffwelcome";
/// In [`Tree::facts`], the number of the next tree.
const NEXT_TREE: &[u8] = b"\xffnext";
/// In [`Tree::facts`], before the number of a tree that was dropped and is still to be removed.
const DROPPED: &[u8] = b"\xffdropped";

impl Database {
    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// As [`fulmar_kv::Database::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_keeping(path, options, &[])
    }

    /// As [`Database::open`]; these snapshots, which were open when it was last closed, go on.
    ///
    /// # Errors
    /// As [`fulmar_kv::Database::open`].
    pub fn open_keeping(path: &Path, options: &Options, snapshots: &[Timestamp]) -> Result<Self, Error> {
        let kv = fulmar_kv::Database::open(path, options)?;
        for at in snapshots {
            kv.reopen_snapshot(*at);
        }
        Self::on(kv)
    }

    /// Opens the database in the directory `path` as it is now, for reading only: see
    /// [`fulmar_kv::Database::open_frozen`].
    ///
    /// # Errors
    /// As [`fulmar_kv::Database::open`].
    pub fn open_frozen(path: &Path, options: &Options) -> Result<Self, Error> {
        Self::on(fulmar_kv::Database::open_frozen(path, options)?)
    }

    /// A database that is gone with its last handle.
    ///
    /// # Errors
    /// None that a memory engine gives.
    pub fn transient(options: &Options) -> Result<Self, Error> {
        Self::on(fulmar_kv::Database::transient(options)?)
    }

    /// The trees kept in a key-value database, made if it is empty.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`].
    pub fn on(kv: fulmar_kv::Database) -> Result<Self, Error> {
        let database = Self { store: Arc::new(Site::new(Where::Here(kv))), dropped: Arc::default() };
        database.create_roots()?;
        if let Some(rebalancer) = database.rebalancer() {
            rebalancer.find_dropped()?;
        }
        Ok(database)
    }

    /// The trees in a store elsewhere, which keeps their shape itself.
    pub fn remote(store: Arc<dyn Store>) -> Self {
        Self { store: Arc::new(Site::new(Where::There(store))), dropped: Arc::default() }
    }

    /// The same database, if its storage is in this process, for a user whose transactions move by themselves: see
    /// [`Site`].
    pub fn for_another(&self) -> Option<Self> {
        let kv = self.store.kept()?;
        Some(Self { store: Arc::new(Site::new(Where::Here(kv))), dropped: Arc::clone(&self.dropped) })
    }

    /// The number of the file whose lock holds the directory, if that is in this process: see [`fulmar_kv::Database::lock`].
    pub fn lock(&self) -> Option<RawFd> {
        self.store.kept().and_then(|kv| kv.lock().map(|lock| lock.as_raw_fd()))
    }

    /// Lets that lock outlive this database: see [`fulmar_kv::Database::pass_lock`].
    ///
    /// # Errors
    /// What the system says.
    pub fn pass_lock(&self) -> io::Result<Option<File>> {
        self.store.kept().map_or(Ok(None), |kv| kv.pass_lock())
    }

    /// Where its objects are.
    pub fn site(&self) -> &Arc<Site> {
        &self.store
    }

    fn create_roots(&self) -> Result<(), Error> {
        let shard = self.store.kept().map_or(ShardId(0), |kv| kv.shard());
        let schema = (shard == ShardId(0)).then_some(Tree(1));
        for tree in [Some(Tree::facts(shard)), schema].into_iter().flatten() {
            if self.store.read(tree.root(), Part::From(&[]), &Snapshot::none())?.is_some() {
                continue;
            }
            let restructurings = vec![Restructuring::Create { object: tree.root() }];
            match self.store.commit(Commit { restructurings, ..Commit::default() }, Durability::Synced) {
                // Somebody else has made it: as good.
                Ok(_) | Err(Refusal::Failed(Error::Conflict)) => {}
                Err(Refusal::Misplaced(_)) => unreachable!("names no cell"),
                Err(Refusal::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Begins a transaction on a snapshot of everything committed so far.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be reached.
    pub fn begin(&self) -> Result<Transaction, Error> {
        Transaction::new(self)
    }

    /// The newest commit that a transaction begun now would see.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be reached.
    pub fn newest(&self) -> Result<Timestamp, Error> {
        self.store.newest()
    }

    /// Whether its storage is in another process.
    pub fn is_far(&self) -> bool {
        self.store.is_far()
    }

    /// About how many bytes it takes on the disk: see [`Store::bytes`].
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    pub fn bytes(&self) -> Result<u64, Error> {
        self.store.bytes()
    }

    /// How many times it has waited for servers: see [`Store::round_trips`].
    pub fn round_trips(&self) -> u64 {
        self.store.round_trips()
    }

    /// How long servers may take to answer: see [`Store::set_limit`].
    pub fn set_limit(&self, limit: Option<Duration>) {
        self.store.set_limit(limit);
    }

    /// Who says when to wait for servers no longer: see [`Store::heed`].
    pub fn heed(&self, is_interrupted: Interruption) {
        self.store.heed(is_interrupted);
    }

    /// Keeps all others from committing: see [`Store::exclude`].
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be reached.
    pub fn exclude(&self, exclusion: Exclusion) -> Result<bool, Error> {
        self.store.exclude(exclusion)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// Memory that cached nodes take, bytes.
    pub fn cached_bytes(&self) -> usize {
        self.store.cached_bytes()
    }

    fn corrupt(&self, what: String) -> Error {
        Error::Corrupt { path: self.path().into(), what }
    }
}
