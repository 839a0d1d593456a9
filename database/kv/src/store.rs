//! What trees stand on: objects, commits and snapshots, in this process or behind a network.

use crate::{Commit, Database, Durability, Error, Key, Object, ObjectId, Refusal, ShardId, Timestamp};
use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Which cells of an object a reader is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Those from this key on.
    From(&'a [u8]),
    /// Those before this key, the last first; `None`: those at the end.
    Before(Option<&'a [u8]>),
}

/// Says whether who waits for servers is to give up.
pub type Interruption = Arc<dyn Fn() -> bool + Send + Sync>;

/// Objects, snapshots of them, and commits.
pub trait Store: Send + Sync {
    /// What it is, as messages name it.
    fn path(&self) -> &Path;

    /// Keeps all that is committed readable until [`Store::close_snapshot`].
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn open_snapshot(&self) -> Result<Timestamp, Error>;

    /// Whether [`Store::open_snapshot`] takes a round trip, which the first read can save.
    fn is_far(&self) -> bool;

    /// How many times it has waited for servers, if it does and they are counted.
    fn round_trips(&self) -> u64 {
        0
    }

    /// About how many bytes it takes on the disk: where the database is on servers, what those that lead its shards have.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn bytes(&self) -> Result<u64, Error>;

    /// From now on servers may take so long to answer, if there are any; or as long as they do if nothing is said.
    fn set_limit(&self, _limit: Option<Duration>) {}

    /// From now on whoever waits for servers, if there are any, asks this now and then, and gives up when it says so.
    fn heed(&self, _is_interrupted: Interruption) {}

    /// Ends a snapshot that was opened.
    fn close_snapshot(&self, at: Timestamp);

    /// The newest commit that a snapshot opened now would see.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn newest(&self) -> Result<Timestamp, Error>;

    /// The object; `None` if there is none of this name. Of an object of level 0 it may be a part, whose interval is
    /// then what it tells of: as many cells, as the snapshot sees them, as the store finds fit, beginning with `part`. One
    /// of a higher level is whole, but may be out of date: its reader looks at the fences below. Opens the snapshot, if it
    /// is not open yet and the store is asked.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`]; [`Error::Unexpected`], if the snapshot is opened and does not hold what was
    /// expected of it.
    fn read(&self, object: ObjectId, part: Part<'_>, at: &Snapshot) -> Result<Option<Arc<Object>>, Error>;

    /// How many shards there are.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn shards(&self) -> Result<ShardCounts, Error>;

    /// Whether the object was a leaf when last heard of.
    fn is_leaf(&self, object: ObjectId) -> bool;

    /// Links have led astray: objects, read from the top down, did not fit together. The next to be read are newer.
    fn mistrust(&self, path: &[ObjectId]);

    /// Objects that are read afresh lead astray, too: whoever tells of them may not have heard of a change. Waits a little, and then
    /// finds out anew who is to be asked.
    ///
    /// # Errors
    /// [`Error::Io`] if nobody can be asked.
    fn reconsider(&self) -> Result<(), Error> {
        Ok(())
    }

    /// This inner node has led to a leaf that has given away what was looked for, and the store has found it nevertheless.
    fn excuse(&self, node: ObjectId);

    /// Commits. Unless it answers a timestamp, nothing of the commit takes place, but for an [`Error::Io`] which says that this is unknown.
    ///
    /// # Errors
    /// As [`Database::commit`].
    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>>;

    /// Commits a transaction that has read nothing, and so has no snapshot: it gets the one of all that is committed by
    /// then, and takes place if that holds what it is based on; otherwise it fails with [`Error::Conflict`]. Only a store
    /// that is far can be asked; elsewhere snapshots are open from the beginning.
    ///
    /// # Errors
    /// As [`Database::commit`].
    fn commit_unread(
        &self,
        commit: Commit,
        basis: Basis,
        durability: Durability,
    ) -> Result<Timestamp, Refusal<Commit>>;

    /// Picks a number for a new entry of the tree with this root: `next`, or a larger one if somebody else has picked that.
    /// `None`, if everybody is in this process and can agree without the store.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn pick(&self, tree: ObjectId, next: i64, at: Timestamp) -> Result<Option<i64>, Error>;

    /// Keeps all others from committing, for a while, or not any more; whether it could be done. In one process whoever
    /// commits can agree without the store.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn exclude(&self, exclusion: Exclusion) -> Result<bool, Error>;

    /// Memory that cached objects take, bytes.
    fn cached_bytes(&self) -> usize;
}

/// How many shards a database has, named from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCounts {
    /// When it was made.
    pub founded: u16,
    /// Now, as far as is known here.
    pub all: u16,
}

impl Expected {
    /// The same of another shard, if each has such a leaf.
    pub fn in_shard(self, shard: ShardId) -> Self {
        Self { object: ObjectId::new(shard, self.object.number()), ..self }
    }
}

/// What a transaction takes for granted that has read nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Basis {
    /// Cells that are there.
    pub present: Vec<(ObjectId, Key)>,
    /// What one cell holds.
    pub expected: Option<Expected>,
    /// The transaction takes place after this, if it does: the newest time that its client had heard of when it first asked.
    pub after: Timestamp,
}

/// What [`Store::exclude`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// Begins to keep others from committing, until the end or until the client is gone; not if another does.
    Begin,
    /// Ends that.
    End,
    /// Looks whether no other does.
    Look,
}

/// Keeps what was committed at [`Snapshot::at`] readable for as long as it lives.
pub struct Snapshot {
    store: Option<Arc<dyn Store>>,
    at: OnceCell<Timestamp>,
    expected: RefCell<Option<Expected>>,
}

/// A cell of a leaf that is a root, and what a snapshot must hold there. If there are several shards, the leaf is the one
/// of this number in the shard that is read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The leaf.
    pub object: ObjectId,
    /// The key.
    pub key: Key,
    /// The value; `None`: nothing.
    pub value: Option<Arc<[u8]>>,
}

impl Snapshot {
    /// A snapshot of all that is committed: by now, or if the store is far, when it is first needed.
    ///
    /// # Errors
    /// As [`Store::open_snapshot`].
    pub fn open(store: Arc<dyn Store>) -> Result<Self, Error> {
        let at = OnceCell::new();
        if !store.is_far() {
            let _ = at.set(store.open_snapshot()?);
        }
        Ok(Self { store: Some(store), at, expected: RefCell::default() })
    }

    /// The sight of somebody who looks at inner nodes only, and keeps nothing readable.
    pub fn none() -> Self {
        Self { store: None, at: OnceCell::from(Timestamp(0)), expected: RefCell::default() }
    }

    /// The sight of somebody who reads one cell, and nothing else: the newest that everybody sees. It keeps nothing
    /// readable. Only for a store that is far, which answers with just that cell or those beside it.
    pub fn once(expected: Option<Expected>) -> Self {
        Self { store: None, at: OnceCell::new(), expected: RefCell::new(expected) }
    }

    /// Whether it is [`Snapshot::once`].
    pub fn is_once(&self) -> bool {
        self.store.is_none() && self.at.get().is_none()
    }

    /// The newest commit that it sees.
    ///
    /// # Errors
    /// As [`Store::open_snapshot`]; [`Error::Unexpected`] if it is opened now, and does not hold what is [expected](Self::expect).
    pub fn at(&self) -> Result<Timestamp, Error> {
        match (self.at.get(), &self.store) {
            (Some(at), _) => Ok(*at),
            (None, Some(store)) => {
                if let Some(Expected { object, key, .. }) = self.expected() {
                    // The read that opens it looks, unless the leaf is no leaf any more.
                    store.read(object, Part::From(&key), self)?;
                    return self.known().ok_or(Error::Unexpected);
                }
                let at = store.open_snapshot()?;
                Ok(*self.at.get_or_init(|| at))
            }
            (None, None) => Ok(Timestamp(0)),
        }
    }

    /// The same, if it is open already.
    pub fn known(&self) -> Option<Timestamp> {
        self.at.get().copied()
    }

    /// Lets the read that opens it look whether it holds this, without a round trip of its own.
    pub fn expect(&self, expected: Option<Expected>) {
        *self.expected.borrow_mut() = expected;
    }

    /// What it is expected to hold, if nothing has opened it.
    pub fn expected(&self) -> Option<Expected> {
        self.expected.borrow().clone()
    }

    /// The store has opened it.
    pub fn opened(&self, at: Timestamp) {
        let _ = self.at.set(at);
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let (Some(store), Some(at)) = (&self.store, self.at.get()) {
            store.close_snapshot(*at);
        }
    }
}

/// Objects are always whole and new.
impl Store for Database {
    fn path(&self) -> &Path {
        Self::path(self)
    }

    fn open_snapshot(&self) -> Result<Timestamp, Error> {
        Ok(Self::open_snapshot(self))
    }

    fn close_snapshot(&self, at: Timestamp) {
        Self::close_snapshot(self, at);
    }

    fn newest(&self) -> Result<Timestamp, Error> {
        Ok(Self::newest(self))
    }

    fn bytes(&self) -> Result<u64, Error> {
        Ok(self.storage().bytes())
    }

    fn is_far(&self) -> bool {
        false
    }

    fn read(&self, object: ObjectId, _part: Part<'_>, _at: &Snapshot) -> Result<Option<Arc<Object>>, Error> {
        Self::read(self, object)
    }

    fn shards(&self) -> Result<ShardCounts, Error> {
        Ok(ShardCounts { founded: 1, all: 1 })
    }

    fn is_leaf(&self, _object: ObjectId) -> bool {
        false
    }

    fn mistrust(&self, _path: &[ObjectId]) {
        self.settle();
    }

    /// Its nodes are never old.
    fn excuse(&self, _node: ObjectId) {}

    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        Self::commit(self, commit, durability)
    }

    fn commit_unread(
        &self,
        _commit: Commit,
        _basis: Basis,
        _durability: Durability,
    ) -> Result<Timestamp, Refusal<Commit>> {
        Err(Error::Conflict.into())
    }

    fn pick(&self, _tree: ObjectId, _next: i64, _at: Timestamp) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    fn exclude(&self, _exclusion: Exclusion) -> Result<bool, Error> {
        Ok(true)
    }

    fn cached_bytes(&self) -> usize {
        Self::cached_bytes(self)
    }
}
