//! Objects in a cache over an engine: changed by commits through the core, read by snapshots.
//!
//! Whoever drives it decides when what was carried out is synced and becomes visible.

mod failure;
mod participant;
mod snapshots;
mod stale;
#[cfg(test)]
mod tests;

use crate::cache::Cache;
use crate::core::{Core, Loading, Outcome, Outcomes, Pending, STATE, Staged};
use crate::directory::{self, DatabaseDirectory};
use crate::engine::{Batch, Engine, Fjall};
use crate::frozen::Frozen;
use crate::{
    Commit, Error, FIRST_FRESH, Moved, Object, ObjectId, Options, Refusal, ShardId, Timestamp, TransactionId,
};
use failure::Reason;
use fulmar_locks::Mutex;
use snapshots::Snapshots;
use stale::Stale;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// More objects than are made between two syncs: with leaves of 8 KiB they take 8 GiB.
const LOST_NAMES: u64 = 1 << 20;

/// The objects of one shard in a cache over an engine, their open snapshots, and what becomes of commits: alone, or as a part of a transaction of
/// several shards (a participant of two-phase commit).
///
/// What is written is seen when it is [published](Self::publish), and survives the loss of power after [`Database::sync`](crate::Database::sync). An error is what the
/// engine answers; after one of a write nothing is written any more.
pub struct Storage {
    path: PathBuf,
    shard: ShardId,
    cache: Cache,
    snapshots: Mutex<Snapshots>,
    core: Mutex<Core>,
    stale: Mutex<Stale>,
    /// How many of them were rewritten since the engine was told.
    collected: AtomicU64,
    /// Held while the objects of a group of commits change one after the other.
    placing: Mutex<()>,
    /// How much has reached the engine: after a failed write less than the core has counted.
    written: AtomicU64,
    /// Objects with this number and above do not exist yet.
    next_object: AtomicU64,
    /// Why nothing can be committed any more.
    failed: Mutex<Option<Reason>>,
    /// Whether what was written may not be on the disk, as a sync has failed.
    unsynced: AtomicBool,
    engine: Box<dyn Engine>,
    /// Unlocks the directory, after the engine has let go of it.
    directory: Option<DatabaseDirectory>,
    /// Instead of that, where it may only be read.
    frozen: Option<Frozen>,
}

/// What carrying out commits came to.
pub(crate) struct Executed {
    /// In the order of the commits.
    pub(crate) results: Vec<Result<Timestamp, Refusal<()>>>,
    /// The newest commit, if something was written.
    pub(crate) written: Option<Timestamp>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.as_ref().filter(|_| !self.engine.changes_files()) {
            directory.leave_as_it_is();
        }
    }
}

impl Storage {
    /// What is kept in the directory `path`.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let directory = DatabaseDirectory::enter(path, options.create, options.lock.as_deref())?;
        // The engine needs blocks only until their objects are cached here.
        let complete =
            |state: Option<&[u8]>| directory.require_synced(restore(state, path)?.0.sequence, "commit");
        let engine = Fjall::open(&directory.engine(), options.cache_bytes / 8, STATE, complete)?;
        let engine = engine.limited(options.write_limit.clone());
        directory.finish()?;
        // What is left of seven eighths is lost between objects of ever-changing sizes: measured.
        let objects = options.cache_bytes / 8 * 5;
        let storage = Self::on(Box::new(engine), path, objects, Some(directory), options.shard)?;
        storage.note_all_synced();
        Ok(storage)
    }

    /// Saves whoever opens it next from syncing again what was synced when it was opened.
    fn note_all_synced(&self) {
        if let Some(directory) = &self.directory {
            let held = self.written.load(Relaxed);
            let is_noted = directory.require_synced(held, "commit").is_ok_and(|is_noted| is_noted);
            if !is_noted {
                // Without the note the next one only takes longer.
                let _ = directory.note_synced(held);
            }
        }
    }

    /// What is kept in the directory `path` now, to be read only, by who may not write there.
    pub(crate) fn open_frozen(path: &Path, options: &Options) -> Result<Self, Error> {
        let (frozen, synced) = DatabaseDirectory::freeze(path)?;
        let complete = |state: Option<&[u8]>| {
            directory::require(path, synced, restore(state, path)?.0.sequence, "commit")
        };
        let engine = Fjall::open(&frozen.engine(), options.cache_bytes / 8, STATE, complete)?;
        let objects = options.cache_bytes / 8 * 5;
        let mut storage = Self::on(Box::new(engine), path, objects, None, options.shard)?;
        let message = format!("{}: this process may read it only", path.display());
        *storage.failed.lock() = Some(Reason { kind: io::ErrorKind::ReadOnlyFilesystem, message });
        storage.frozen = Some(frozen);
        Ok(storage)
    }

    pub(crate) fn on(
        engine: Box<dyn Engine>,
        path: &Path,
        cache_bytes: u64,
        directory: Option<DatabaseDirectory>,
        shard: ShardId,
    ) -> Result<Self, Error> {
        let (core, next_object) = restore(engine.fact(STATE)?.as_deref(), path)?;
        let cache_bytes = if engine.keeps_entries() { cache_bytes } else { u64::MAX };
        let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let storage = Self {
            path: path.into(),
            shard,
            cache: Cache::new(cache_bytes),
            snapshots: Mutex::new(Snapshots { published: core.last, open: BTreeMap::new(), elsewhere: None }),
            written: AtomicU64::new(core.sequence),
            core: Mutex::new(core),
            stale: Mutex::default(),
            collected: AtomicU64::new(0),
            placing: Mutex::default(),
            next_object: AtomicU64::new(next_object.max(FIRST_FRESH)),
            failed: Mutex::default(),
            unsynced: AtomicBool::new(false),
            engine,
            directory,
            frozen: None,
        };
        if let Some(records) = storage.read(Pending::records(shard))? {
            let what = || "the records of its transactions are damaged".into();
            let pending = Pending::restore(&records);
            storage.core.lock().pending =
                pending.ok_or_else(|| Error::Corrupt { path: path.into(), what: what() })?;
        }
        let (mut outcomes, mut is_sound) = (Outcomes::default(), true);
        storage.engine.load(Outcomes::records(shard), &mut |entry, record| {
            is_sound &= outcomes.restore(entry, record).is_some();
        })?;
        if !is_sound {
            let what = "the records of clients' transactions are damaged".into();
            return Err(Error::Corrupt { path: path.into(), what });
        }
        storage.core.lock().outcomes = outcomes;
        Ok(storage)
    }

    /// Which shard it is.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// What messages call it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file whose lock holds the directory, if there is one.
    pub(crate) fn lock(&self) -> Option<&File> {
        self.directory.as_ref().map(DatabaseDirectory::lock)
    }

    /// A copy of that file, by which the directory stays locked when the storage is dropped, for whoever opens it next.
    pub(crate) fn pass_lock(&self) -> io::Result<Option<File>> {
        self.directory.as_ref().map(DatabaseDirectory::pass_lock).transpose()
    }

    /// The object as it is now, with the versions that open snapshots read.
    pub(crate) fn read(&self, id: ObjectId) -> Result<Option<Arc<Object>>, Error> {
        self.cache.get(id, || {
            let watermark = self.snapshots.lock().watermark();
            let mut loading = Loading::default();
            self.engine.load(id, &mut |sequence, entry| loading.entry(id, sequence, entry, watermark))?;
            let loaded = loading.finish();
            // Whoever had this open before may have ended before it was taken away. Where nobody reads it, it harms nobody.
            if let Ok(Some(object)) = &loaded
                && object.is_void()
            {
                self.stale.lock().note(object.newest(), id);
            }
            loaded.map_err(|what| Error::Corrupt { path: self.path.clone(), what })
        })
    }

    /// Waits until all objects are as one commit left them.
    pub(crate) fn settle(&self) {
        drop(self.placing.lock());
    }

    /// A name that no object has had.
    pub(crate) fn fresh(&self) -> ObjectId {
        ObjectId::new(self.shard, self.next_object.fetch_add(1, Relaxed))
    }

    /// Memory that cached objects take, bytes.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Carries out commits, one after the other, and writes what they did to the engine.
    pub(crate) fn execute(&self, commits: &[&Commit]) -> Executed {
        self.execute_all(commits.len(), |core, staged| {
            commits.iter().map(|commit| core.execute(commit, staged)).collect()
        })
    }

    /// Carries out a commit of a client that may ask for it again, and writes what it did to the engine.
    pub fn execute_for(&self, transaction: TransactionId, commit: &Commit) -> Result<Timestamp, Refusal<()>> {
        let of = (self.shard, transaction);
        let executed = self.execute_all(1, |core, staged| vec![core.execute_for(of, commit, staged)]);
        executed.results.into_iter().next().unwrap_or_else(|| unreachable!("a result for the commit"))
    }

    fn execute_all(
        &self,
        count: usize,
        execute: impl FnOnce(&mut Core, &mut Staged<'_>) -> Vec<Result<Timestamp, Refusal<()>>>,
    ) -> Executed {
        if let Some(reason) = &*self.failed.lock() {
            let results = (0..count).map(|_| Err(self.latched(reason).into())).collect();
            return Executed { results, written: None };
        }
        let mut results = Vec::new();
        let written = self.change(|core, staged| results = execute(core, staged));
        match written {
            Ok(written) => Executed { results, written },
            Err(error) => Executed { results: self.fail(results, error), written: None },
        }
    }

    /// Lets the core change objects, and writes what it did to the engine: that is written when it returns, or nothing is.
    fn change(&self, change: impl FnOnce(&mut Core, &mut Staged<'_>)) -> Result<Option<Timestamp>, Error> {
        if let Some(reason) = &*self.failed.lock() {
            return Err(self.latched(reason));
        }
        let mut core = self.core.lock();
        let read = |id| self.read(id);
        let mut staged = Staged::new(&read, self.snapshots.lock().watermark(), &*self.engine);
        change(&mut core, &mut staged);
        if staged.objects.is_empty() && staged.batch.writes.is_empty() {
            return Ok(None);
        }
        let Staged { objects, mut batch, stale, .. } = staged;
        for (at, object) in stale {
            self.stale.lock().note(at, object);
        }
        core.save(self.next_object.load(Relaxed), &mut batch);
        self.place(&core, batch, objects)?;
        Ok(Some(core.last))
    }

    /// One change after which nothing further may be committed if it fails for a reason of ours.
    fn change_one<T>(
        &self,
        change: impl FnOnce(&mut Core, &mut Staged<'_>) -> Result<T, Refusal<()>>,
    ) -> Result<T, Refusal<()>> {
        let mut result = None;
        let written = self.change(|core, staged| result = Some(change(core, staged)));
        if let Err(error) = written {
            self.failed.lock().get_or_insert_with(|| Reason::of(&error));
            return Err(error.into());
        }
        result.unwrap_or_else(|| unreachable!("carried out above"))
    }

    /// The first object from `from` on.
    pub fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        let outcomes = Outcomes::records(self.shard);
        match self.engine.next(from)? {
            Some(next) if next == outcomes => self.engine.next(ObjectId(outcomes.0 + 1)),
            next => Ok(next),
        }
    }

    /// Where the names of new objects begin.
    pub fn next_object(&self) -> u64 {
        self.next_object.load(Relaxed)
    }

    /// Goes on where another storage of the same shard has ended.
    pub(crate) fn succeed(&self, last: Timestamp, next_object: u64) -> Result<(), Error> {
        self.advance(last, Timestamp(0));
        self.name_from(next_object)
    }

    /// The same, where that was elsewhere, and knew what has become of clients' transactions: nobody knows here, nor who opens it next.
    pub fn inherit(&self, last: Timestamp, next_object: u64) -> Result<(), Error> {
        self.prepared(|core, staged| {
            core.outcomes.forget_for_good(self.shard, last, staged);
            Ok(())
        })?;
        self.succeed(last, next_object)
    }

    /// Gives no name again of an object that the disk may have lost, when its power failed: before somebody elsewhere, who
    /// outlives that and remembers such an object, is shown any.
    pub fn skip_lost_names(&self) -> Result<(), Error> {
        self.name_from(self.next_object() + LOST_NAMES)?;
        self.sync_all()
    }

    /// Writes down that all commits to come will be after `seen`, whoever opens the storage for them.
    pub fn pass(&self, seen: Timestamp) -> Result<(), Error> {
        self.succeed(Timestamp(seen.0 + 1), self.next_object())
    }

    /// Writes down that a transaction is not carried out, whoever opens the storage next and is asked for it.
    pub fn refuse(&self, transaction: TransactionId) -> Result<(), Error> {
        self.prepared(|core, staged| {
            core.outcomes.refuse_for_good(self.shard, transaction, staged);
            Ok(())
        })
    }

    fn name_from(&self, next_object: u64) -> Result<(), Error> {
        self.next_object.store(next_object, Relaxed);
        let mut batch = Batch::default();
        let core = self.core.lock();
        core.save(next_object, &mut batch);
        self.place(&core, batch, BTreeMap::new())
    }

    /// An object, for another shard.
    pub fn moved(&self, id: ObjectId) -> Result<Option<Moved>, Error> {
        let Some(object) = self.read(id)? else { return Ok(None) };
        let mut bytes = Vec::new();
        object.encode(&mut bytes);
        let touched = self.core.lock().touched(object.root(), object.interval());
        Ok(Some(Moved { object: bytes.into(), touched }))
    }

    /// What was prepared must not fail: if it does, nothing may build on what was left undone.
    fn prepared<T>(
        &self,
        change: impl FnOnce(&mut Core, &mut Staged<'_>) -> Result<T, Refusal<()>>,
    ) -> Result<T, Error> {
        let owed = |core: &mut Core, staged: &mut Staged<'_>| {
            staged.batch.is_owed = true;
            change(core, staged)
        };
        self.change_one(owed).map_err(|refusal| match refusal {
            Refusal::Misplaced(()) => self.give_up(),
            Refusal::Failed(error) => {
                self.failed.lock().get_or_insert_with(|| Reason::of(&error));
                error
            }
        })
    }

    /// What has become of a client's transaction, if that is known. After a failed write it is not: what was carried out may
    /// not be there.
    pub fn outcome(&self, transaction: TransactionId) -> Option<Outcome> {
        self.outcomes(|outcomes| outcomes.of(transaction)).filter(|_| !self.has_failed())
    }

    /// Whether a transaction whose outcome is not known may have been committed: it may be forgotten.
    pub fn may_have_committed(&self, after: Timestamp) -> bool {
        self.has_failed() || self.outcomes(|outcomes| outcomes.may_have_forgotten(after))
    }

    /// What the shard knows of what has become of clients' last transactions.
    pub fn outcomes<T>(&self, look: impl FnOnce(&mut Outcomes) -> T) -> T {
        look(&mut self.core.lock().outcomes)
    }

    /// Whether anything outlives the process.
    pub fn is_kept(&self) -> bool {
        self.engine.keeps_entries()
    }

    /// How much was written to the engine.
    pub fn sequence(&self) -> u64 {
        self.core.lock().sequence
    }

    /// How many objects there are, but for those that were there before they were counted.
    pub fn objects(&self) -> u64 {
        self.core.lock().objects
    }

    /// The newest commit, or a point that all commits to come are above.
    pub fn last(&self) -> Timestamp {
        self.core.lock().last
    }

    /// When it returns, all that was written before survives the loss of power. After an error that is not known, also for want of room:
    /// no error says [`io::ErrorKind::StorageFull`], as of a write that has not taken place.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let written = self.written.load(Relaxed);
        let noted = || self.directory.as_ref().map_or(Ok(()), |directory| directory.note_synced(written));
        self.engine.sync().and_then(|()| noted()).map_err(Error::of_unknown_outcome)
    }

    /// About how many bytes it takes on the disk.
    pub fn bytes(&self) -> u64 {
        self.directory.as_ref().map_or_else(|| self.engine.bytes(), DatabaseDirectory::bytes)
    }

    /// As [`Storage::sync`], and it fails too if something that was carried out could not be written; a failure is remembered.
    pub(crate) fn sync_all(&self) -> Result<(), Error> {
        let synced = self.sync();
        let mut failed = self.failed.lock();
        if let Err(error) = synced {
            self.unsynced.store(true, Relaxed);
            // The first failure is why, not those that come of it.
            failed.get_or_insert_with(|| Reason::of(&error));
        }
        failed.as_ref().map_or(Ok(()), |reason| Err(self.latched(reason)))
    }

    /// Makes the objects of a group of commits, which the core has saved in the batch, what readers find.
    fn place(
        &self,
        core: &Core,
        batch: Batch,
        objects: BTreeMap<ObjectId, Option<Arc<Object>>>,
    ) -> Result<(), Error> {
        let _placing = self.placing.lock();
        self.engine.write(batch)?;
        self.written.store(core.sequence, Relaxed);
        for (id, object) in objects {
            self.cache.store(id, object);
        }
        Ok(())
    }
}

/// The core as the newest commit in `engine` left it, and the first name of an object that was never given.
fn restore(state: Option<&[u8]>, path: &Path) -> Result<(Core, u64), Error> {
    let what = || "the state of the last commit is damaged".into();
    Core::restore(state).ok_or_else(|| Error::Corrupt { path: path.into(), what: what() })
}
