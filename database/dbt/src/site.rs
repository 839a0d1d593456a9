//! Where the objects of trees are: in this process, or elsewhere. They may move from the one to the other while
//! transactions are open.
//!
//! A transaction has nothing in the storage but its snapshot. So whoever closes a storage notes which snapshots each
//! [`Site`] has open, sees to it that these are kept where the objects are next, and goes on from there.

use fulmar_kv::{
    Basis, Commit, Durability, Error, Exclusion, Interruption, Object, ObjectId, Part, Refusal, ShardCounts,
    Snapshot, Store, Timestamp,
};
use fulmar_locks::{Mutex, RecursiveReadGuard, RecursiveRwLock, RecursiveWriteGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One user's way to the objects. Nothing moves while one of its operations runs.
pub struct Site {
    name: PathBuf,
    at: RecursiveRwLock<Where>,
    /// The snapshots that were opened here and are still open; elsewhere the store knows.
    snapshots: Mutex<Vec<Timestamp>>,
    /// By snapshot and tree, the largest number that a transaction has picked here; elsewhere the store knows.
    numbers: Mutex<BTreeMap<(Timestamp, ObjectId), i64>>,
    /// Whether its user excludes all others; elsewhere the store knows.
    excludes: AtomicBool,
    /// For how long its user waits for servers, and who says when it waits no longer.
    limit: Mutex<Option<Duration>>,
    is_interrupted: Mutex<Option<Interruption>>,
}

/// Where that is.
pub(crate) enum Where {
    /// In this process.
    Here(fulmar_kv::Database),
    /// In another.
    There(Arc<dyn Store>),
}

impl Where {
    fn store(&self) -> &dyn Store {
        match self {
            Self::Here(kv) => kv,
            Self::There(store) => &**store,
        }
    }
}

impl Site {
    pub(crate) fn new(at: Where) -> Self {
        let name = at.store().path().into();
        Self {
            name,
            at: RecursiveRwLock::new(at),
            snapshots: Mutex::default(),
            numbers: Mutex::default(),
            excludes: AtomicBool::new(false),
            limit: Mutex::default(),
            is_interrupted: Mutex::default(),
        }
    }

    /// Keeps the objects where they are for as long as the guard lives. Guards nest.
    pub(crate) fn stay(&self) -> RecursiveReadGuard<'_, Where> {
        self.at.read()
    }

    /// The storage, if it is in this process. Whoever keeps it sees to it that nothing moves meanwhile.
    pub(crate) fn kept(&self) -> Option<fulmar_kv::Database> {
        match &*self.stay() {
            Where::Here(kv) => Some(kv.clone()),
            Where::There(_) => None,
        }
    }

    /// Notes a number that a transaction on this snapshot has picked here.
    pub(crate) fn note_picked(&self, at: Timestamp, tree: ObjectId, number: i64) {
        let mut numbers = self.numbers.lock();
        let largest = numbers.entry((at, tree)).or_insert(number);
        *largest = number.max(*largest);
    }

    /// Waits for what happens at this site just now, and lets nothing more happen; nothing if it takes too long.
    pub fn hold(&self, until: Instant) -> Option<Held<'_>> {
        Some(Held { site: self, at: self.at.write_until(until)? })
    }
}

/// A site at which nothing happens.
pub struct Held<'p> {
    site: &'p Site,
    at: RecursiveWriteGuard<'p, Where>,
}

impl Held<'_> {
    /// The snapshots that are open here.
    pub fn snapshots(&self) -> Vec<Timestamp> {
        self.site.snapshots.lock().clone()
    }

    /// The largest number that each transaction has picked in each tree, and its snapshot.
    pub fn numbers(&self) -> Vec<(Timestamp, ObjectId, i64)> {
        self.site.numbers.lock().iter().map(|(&(at, tree), &number)| (at, tree, number)).collect()
    }

    /// Whether its user excludes all others from committing.
    pub fn excludes(&self) -> bool {
        self.site.excludes.load(Relaxed)
    }

    /// Goes on in another process, which has to know the snapshots before it is asked for anything else.
    pub fn move_to(&mut self, store: Arc<dyn Store>) {
        *self.at = Where::There(store);
    }

    /// From now on its user waits there as it has said that it waits for servers. Nobody else may ask anything for it any more, whom its
    /// interrupts do not concern.
    pub fn leave_to_its_user(&self) {
        let limit = *self.site.limit.lock();
        if limit.is_some() {
            self.at.store().set_limit(limit);
        }
        if let Some(is_interrupted) = self.site.is_interrupted.lock().clone() {
            self.at.store().heed(is_interrupted);
        }
    }

    /// Goes on in this process. The snapshots have been [kept](crate::Database::open_keeping).
    pub fn return_to(&mut self, database: &crate::Database) {
        if let Some(kv) = database.store.kept() {
            *self.at = Where::Here(kv);
        }
    }
}

impl Store for Site {
    fn path(&self) -> &Path {
        &self.name
    }

    fn open_snapshot(&self) -> Result<Timestamp, Error> {
        let site = self.stay();
        let at = site.store().open_snapshot()?;
        if let Where::Here(_) = &*site {
            self.snapshots.lock().push(at);
        }
        Ok(at)
    }

    fn is_far(&self) -> bool {
        self.stay().store().is_far()
    }

    fn round_trips(&self) -> u64 {
        self.stay().store().round_trips()
    }

    fn bytes(&self) -> Result<u64, Error> {
        self.stay().store().bytes()
    }

    fn set_limit(&self, limit: Option<Duration>) {
        *self.limit.lock() = limit;
        self.stay().store().set_limit(limit);
    }

    fn heed(&self, is_interrupted: Interruption) {
        *self.is_interrupted.lock() = Some(is_interrupted.clone());
        self.stay().store().heed(is_interrupted);
    }

    fn shards(&self) -> Result<ShardCounts, Error> {
        self.stay().store().shards()
    }

    fn close_snapshot(&self, at: Timestamp) {
        let site = self.stay();
        let mut snapshots = self.snapshots.lock();
        if let Some(known) = snapshots.iter().position(|known| *known == at) {
            snapshots.swap_remove(known);
        }
        drop(snapshots);
        self.numbers.lock().retain(|(snapshot, _), _| *snapshot != at);
        site.store().close_snapshot(at);
    }

    fn newest(&self) -> Result<Timestamp, Error> {
        self.stay().store().newest()
    }

    fn read(&self, object: ObjectId, part: Part<'_>, at: &Snapshot) -> Result<Option<Arc<Object>>, Error> {
        self.stay().store().read(object, part, at)
    }

    fn is_leaf(&self, object: ObjectId) -> bool {
        self.stay().store().is_leaf(object)
    }

    fn mistrust(&self, path: &[ObjectId]) {
        self.stay().store().mistrust(path);
    }

    fn reconsider(&self) -> Result<(), Error> {
        self.stay().store().reconsider()
    }

    fn excuse(&self, node: ObjectId) {
        self.stay().store().excuse(node);
    }

    fn commit_unread(
        &self,
        commit: Commit,
        basis: Basis,
        durability: Durability,
    ) -> Result<Timestamp, Refusal<Commit>> {
        self.stay().store().commit_unread(commit, basis, durability)
    }

    fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        self.stay().store().commit(commit, durability)
    }

    fn pick(&self, tree: ObjectId, next: i64, at: Timestamp) -> Result<Option<i64>, Error> {
        self.stay().store().pick(tree, next, at)
    }

    fn exclude(&self, exclusion: Exclusion) -> Result<bool, Error> {
        let site = self.stay();
        let done = site.store().exclude(exclusion)?;
        match exclusion {
            Exclusion::Begin => self.excludes.store(done, Relaxed),
            Exclusion::End => self.excludes.store(false, Relaxed),
            Exclusion::Look => {}
        }
        Ok(done)
    }

    fn cached_bytes(&self) -> usize {
        self.stay().store().cached_bytes()
    }
}
