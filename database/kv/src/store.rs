//! What trees stand on: objects, commits and snapshots, in this process or behind a network.

use crate::{Commit, Database, Durability, Error, Object, ObjectId, Refusal, Timestamp};
use std::path::Path;
use std::sync::Arc;

/// Which cells of an object a reader is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Those from this key on.
    From(&'a [u8]),
    /// Those before this key, the last first; `None`: those at the end.
    Before(Option<&'a [u8]>),
}

/// Objects, snapshots of them, and commits.
pub trait Store: Send + Sync {
    /// What it is, as messages name it.
    fn path(&self) -> &Path;

    /// Keeps all that is committed readable until [`Store::close_snapshot`].
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn open_snapshot(&self) -> Result<Timestamp, Error>;

    /// Ends a snapshot that [`Store::open_snapshot`] gave.
    fn close_snapshot(&self, at: Timestamp);

    /// The newest commit that a snapshot opened now would see.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached.
    fn newest(&self) -> Result<Timestamp, Error>;

    /// The object; `None` if there is none of this name. Of an object of level 0 it may be a part, whose interval is
    /// then what it tells of: as many cells, as `at` sees them, as the store finds fit, beginning with `part`. One of a
    /// higher level is whole, but may be out of date: its reader looks at the fences below.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`].
    fn read(&self, object: ObjectId, part: Part<'_>, at: Timestamp) -> Result<Option<Arc<Object>>, Error>;

    /// Links have led astray: objects, read from the top down, did not fit together. The next to be read are newer.
    fn mistrust(&self, path: &[ObjectId]);

    /// Commits. Unless it answers a timestamp, nothing of the commit takes place.
    ///
    /// # Errors
    /// As [`Database::commit`].
    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>>;

    /// Memory that cached objects take, bytes.
    fn cached_bytes(&self) -> usize;
}

/// Keeps what was committed at [`Snapshot::at`] readable for as long as it lives.
pub struct Snapshot {
    store: Arc<dyn Store>,
    at: Timestamp,
}

impl Snapshot {
    /// A snapshot of all that is committed.
    ///
    /// # Errors
    /// As [`Store::open_snapshot`].
    pub fn open(store: &Arc<dyn Store>) -> Result<Self, Error> {
        Ok(Self { at: store.open_snapshot()?, store: Arc::clone(store) })
    }

    /// The newest commit that it sees.
    pub fn at(&self) -> Timestamp {
        self.at
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.store.close_snapshot(self.at);
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

    fn read(&self, object: ObjectId, _part: Part<'_>, _at: Timestamp) -> Result<Option<Arc<Object>>, Error> {
        Self::read(self, object)
    }

    fn mistrust(&self, _path: &[ObjectId]) {
        self.settle();
    }

    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        Self::commit(self, commit, durability)
    }

    fn cached_bytes(&self) -> usize {
        Self::cached_bytes(self)
    }
}
