//! The driver: storage among threads.
//!
//! Threads that commit queue up. The first leads: it carries out the commits of all who wait, writes them to the engine
//! at once, syncs once, makes them visible and wakes the others (group commit). Meanwhile the next group gathers.
//!
//! *Known as:* group commit.

use crate::engine::{Catalogue, Engine, WriteLimit};
use crate::storage::{Executed, Storage};
use crate::{Commit, Error, Object, ObjectId, Refusal, ShardId, Timestamp};
use fulmar_locks::{Condvar, Mutex};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

/// How to open a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make it if it does not exist.
    pub create: bool,
    /// Upper bound of memory for cached data, bytes.
    pub cache_bytes: u64,
    /// Which of a distributed database's shards it is; 0 if it is all of it.
    pub shard: ShardId,
    /// The locked file of its directory, if the lock was passed on by who had it last: see [`Database::pass_lock`].
    pub lock: Option<Arc<File>>,
    /// Shared with other databases: how many of them are open to be written to at a time. Unless there is one, all may be.
    pub write_limit: Option<WriteLimit>,
}

impl Default for Options {
    fn default() -> Self {
        Self { create: true, cache_bytes: 256 << 20, shard: ShardId(0), lock: None, write_limit: None }
    }
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The loss of power: synced to the disk before the commit returns.
    #[default]
    Synced,
    /// The end of this process: handed to the operating system.
    Written,
}

/// An open database; clones share it. The last one to go closes it.
#[derive(Clone)]
pub struct Database(Arc<Shared>);

struct Shared {
    storage: Storage,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Queued>>,
    led: bool,
}

/// A commit in the queue.
struct Queued {
    durability: Durability,
    state: Mutex<QueuedState>,
    changed: Condvar,
}

enum QueuedState {
    Waiting(Commit),
    /// It is this one's turn to lead the next group.
    Leads(Commit),
    /// Taken up by the leader.
    Taken,
    Done(Result<Timestamp, Refusal<Commit>>),
}

impl Database {
    /// Whether the directory `path` is a database, or one that was begun.
    ///
    /// # Errors
    /// [`Error::Format`] if something else is there, [`Error::Io`] if the operating system refuses.
    pub fn exists(path: &Path) -> Result<bool, Error> {
        crate::directory::DatabaseDirectory::exists(path)
    }

    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// [`Error::Held`] if another process has it open, [`Error::Format`] if something else is there,
    /// [`Error::Corrupt`] if it is damaged, [`Error::Io`] if the operating system refuses. Then nothing has changed.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        Ok(Self::on(Storage::open(path, options)?))
    }

    /// Opens the database in the directory `path` as it is now, for reading only: also where this process may not write.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_frozen(path: &Path, options: &Options) -> Result<Self, Error> {
        Ok(Self::on(Storage::open_frozen(path, options)?))
    }

    /// A database that is gone with its last handle. All of it is in memory, whatever the options say of a cache.
    pub fn transient(options: &Options) -> Result<Self, Error> {
        Self::with_engine(Path::new("(memory)"), Box::new(Catalogue::default()), options)
    }

    /// A database on an engine of the caller's; `name` is what messages call it.
    ///
    /// # Errors
    /// What the engine answers, and [`Error::Corrupt`].
    pub fn with_engine(name: &Path, engine: Box<dyn Engine>, options: &Options) -> Result<Self, Error> {
        Ok(Self::on(Storage::on(engine, name, options.cache_bytes, None, options.shard)?))
    }

    fn on(storage: Storage) -> Self {
        Self(Arc::new(Shared { storage, queue: Mutex::default() }))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.storage.path()
    }

    /// The file whose lock holds the directory, if there is one. A child process has a copy, which it had better close: the
    /// lock lasts until all copies are closed, or this database.
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.0.storage.lock().map(AsFd::as_fd)
    }

    /// Lets the lock outlive this database: a copy of the locked file, if there is one. Until it is closed, only who opens
    /// the directory with it can, after this database is closed, in this process or in one that it is passed to.
    ///
    /// # Errors
    /// What the system says if it gives no copy.
    pub fn pass_lock(&self) -> io::Result<Option<File>> {
        self.0.storage.pass_lock()
    }

    /// Keeps all that is committed readable until [`Database::close_snapshot`]; [`crate::Snapshot`] does both.
    pub fn open_snapshot(&self) -> Timestamp {
        self.0.storage.open_snapshot()
    }

    /// Goes on with a snapshot that is still open, or was when the database was last closed: then before anything is read
    /// or committed.
    pub fn reopen_snapshot(&self, at: Timestamp) {
        self.0.storage.reopen_snapshot(at);
    }

    /// Ends a snapshot that [`Database::open_snapshot`] or [`Database::reopen_snapshot`] gave.
    pub fn close_snapshot(&self, at: Timestamp) {
        self.0.storage.close_snapshot(at);
    }

    /// The newest commit that a snapshot taken now would see.
    pub fn newest(&self) -> Timestamp {
        self.0.storage.newest()
    }

    /// No open snapshot is older, and none taken later will be.
    pub fn oldest_snapshot(&self) -> Timestamp {
        self.0.storage.oldest_snapshot()
    }

    /// The object as it is now, with the versions that open snapshots read; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`].
    pub fn read(&self, object: ObjectId) -> Result<Option<Arc<Object>>, Error> {
        self.0.storage.read(object)
    }

    /// Waits until all objects are as one commit left them, if some are not. Those that are read one after the other
    /// may be of different commits all the same: who finds that they do not fit together calls this and reads again.
    pub fn settle(&self) {
        self.0.storage.settle();
    }

    /// A name for a new object, never given before and above 2³².
    pub fn fresh(&self) -> ObjectId {
        self.0.storage.fresh()
    }

    /// Commits. Unless it answers a timestamp, nothing of the commit takes place.
    ///
    /// # Errors
    /// [`Refusal::Misplaced`] gives the commit back if the objects it names no longer hold its cells;
    /// [`Error::Conflict`] if another commit since its snapshot changed one of them; [`Error::Io`] if the disk fails,
    /// after which no commit succeeds until the database is opened anew.
    pub fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        let queued = Arc::new(Queued {
            durability,
            state: Mutex::new(QueuedState::Waiting(commit)),
            changed: Condvar::new(),
        });
        let leads = {
            let mut queue = self.0.queue.lock();
            queue.waiting.push(queued.clone());
            !std::mem::replace(&mut queue.led, true)
        };
        if !leads && let Some(done) = queued.wait() {
            return done;
        }
        self.0.lead();
        queued.take_result()
    }

    /// Carries out a commit, which nobody sees before [`Database::publish`] and which may be lost before
    /// [`Database::sync`]: the steps of [`Database::commit`], for a driver that takes many at once.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn execute(&self, commit: &Commit) -> Result<Timestamp, Refusal<()>> {
        let executed = self.0.storage.execute(&[commit]);
        executed.results.into_iter().next().unwrap_or_else(|| unreachable!("a result for each commit"))
    }

    /// When it returns, all that was carried out survives the loss of power.
    ///
    /// # Errors
    /// [`Error::Io`]; after it no commit succeeds.
    pub fn sync(&self) -> Result<(), Error> {
        self.0.storage.sync_all()
    }

    /// Lets snapshots see all commits up to this one.
    pub fn publish(&self, at: Timestamp) {
        self.0.storage.publish(at);
    }

    /// What it stands on: for whoever has transactions of several shards take part.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Whether a transaction of several shards has locked some of the object's cells where they are.
    pub fn is_pinned(&self, object: ObjectId) -> bool {
        self.0.storage.pending(|pending| pending.pins(object))
    }

    /// Whether no transaction of several shards is prepared, or decided and still to be told.
    pub fn is_settled(&self) -> bool {
        self.0.storage.pending(|pending| pending.is_empty())
    }

    /// The first object from this name on; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Io`]
    pub fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.0.storage.next(from)
    }

    /// Which of a distributed database's shards it is.
    pub fn shard(&self) -> ShardId {
        self.0.storage.shard()
    }

    /// Whether [`Database::stale`] may find something to do. Unlike that it costs next to nothing.
    pub fn has_stale(&self) -> bool {
        self.0.storage.has_stale()
    }

    /// Up to `limit` objects that no snapshot keeps as they are. Each is worth a [`crate::Restructuring::Collect`], and may then be
    /// sparse or empty.
    pub fn stale(&self, limit: usize) -> Vec<ObjectId> {
        self.0.storage.stale(limit)
    }

    /// With this object nothing could be done yet: [`Database::stale`] names it again after the next [`Database::resume`].
    pub fn put_off(&self, object: ObjectId) {
        self.0.storage.put_off(object);
    }

    /// What was put off is to be tried again.
    pub fn resume(&self) {
        self.0.storage.resume();
    }

    /// Whether both are handles of the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Memory that cached objects take, bytes.
    pub fn cached_bytes(&self) -> usize {
        self.0.storage.cached_bytes()
    }
}

impl Shared {
    /// Commits everything that waits, then hands the lead on.
    fn lead(&self) {
        let group = std::mem::take(&mut self.queue.lock().waiting);
        let commits: Vec<_> = group.iter().filter_map(|queued| queued.take_commit()).collect();
        let attempt = panic::catch_unwind(AssertUnwindSafe(|| self.commit_group(&commits, &group)));
        let results = attempt.unwrap_or_else(|_| {
            // Whoever waits must hear of it, and nothing may build on what was left undone.
            group.iter().map(|_| Err(self.storage.give_up().into())).collect()
        });
        let mut queue = self.queue.lock();
        match queue.waiting.first() {
            Some(next) => next.lead(),
            None => queue.led = false,
        }
        drop(queue);
        for ((queued, commit), result) in group.iter().zip(commits).zip(results) {
            queued.finish(result.map_err(|refusal| refusal.of(commit)));
        }
    }

    fn commit_group(&self, commits: &[Commit], group: &[Arc<Queued>]) -> Vec<Result<Timestamp, Refusal<()>>> {
        let commits: Vec<_> = commits.iter().collect();
        let Executed { results, written } = self.storage.execute(&commits);
        let Some(written) = written else { return results };
        let sync = group.iter().any(|queued| queued.durability == Durability::Synced);
        if sync && let Err(error) = self.storage.sync() {
            return self.storage.fail(results, error);
        }
        self.storage.publish(written);
        results
    }
}

impl Queued {
    /// The result, or `None` when it is this one's turn to lead.
    fn wait(&self) -> Option<Result<Timestamp, Refusal<Commit>>> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, QueuedState::Taken) {
                QueuedState::Done(result) => return Some(result),
                QueuedState::Leads(commit) => {
                    *state = QueuedState::Leads(commit);
                    return None;
                }
                other => *state = other,
            }
            state = self.changed.wait(state);
        }
    }

    fn lead(&self) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, QueuedState::Taken) {
            QueuedState::Waiting(commit) => *state = QueuedState::Leads(commit),
            other => *state = other,
        }
        self.changed.notify_one();
    }

    fn take_commit(&self) -> Option<Commit> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, QueuedState::Taken) {
            QueuedState::Waiting(commit) | QueuedState::Leads(commit) => Some(commit),
            other => {
                *state = other;
                None
            }
        }
    }

    fn finish(&self, result: Result<Timestamp, Refusal<Commit>>) {
        *self.state.lock() = QueuedState::Done(result);
        self.changed.notify_one();
    }

    fn take_result(&self) -> Result<Timestamp, Refusal<Commit>> {
        match std::mem::replace(&mut *self.state.lock(), QueuedState::Taken) {
            QueuedState::Done(result) => result,
            _ => unreachable!("a leader finishes its own commit"),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.path()).finish()
    }
}
