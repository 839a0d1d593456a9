//! The driver: the core among threads, with an engine, a cache and open snapshots around it.
//!
//! Threads that commit queue up. The first leads: it carries out the commits of all who wait, writes them to the engine
//! at once, syncs once, makes them visible and wakes the others (group commit). Meanwhile the next group gathers.

use crate::cache::Cache;
use crate::core::{Core, Loading, Staged};
use crate::engine::{Batch, Engine, Fjall, Memory};
use crate::home::Home;
use crate::{Commit, Error, Object, ObjectId, Refusal, Timestamp};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How to open a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make it if it does not exist.
    pub create: bool,
    /// Upper bound of memory for cached data, bytes.
    pub cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { create: true, cache_bytes: 256 << 20 }
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
    path: PathBuf,
    cache: Cache,
    snapshots: Mutex<Snapshots>,
    queue: Mutex<Queue>,
    core: Mutex<Core>,
    stale: Mutex<Stale>,
    /// Held while the objects of a group of commits change one after the other.
    placing: Mutex<()>,
    /// Objects with this number and above do not exist yet.
    next_object: AtomicU64,
    /// Why nothing can be committed any more.
    failed: Mutex<Option<Reason>>,
    engine: Box<dyn Engine>,
    /// Unlocks the directory, after the engine has let go of it.
    home: Option<Home>,
}

/// An error that all later commits answer too.
#[derive(Clone)]
struct Reason {
    kind: io::ErrorKind,
    message: String,
}

struct Snapshots {
    /// The newest commit that readers see.
    published: Timestamp,
    /// How many read each snapshot.
    open: BTreeMap<Timestamp, usize>,
}

impl Snapshots {
    /// No open snapshot is older, and none that is opened later will be.
    fn watermark(&self) -> Timestamp {
        self.open.keys().next().map_or(self.published, |oldest| *oldest)
    }
}

/// Objects that are worth a [`crate::Restructuring::Collect`] as soon as no snapshot is older, each once, however often
/// it changes under an old snapshot.
#[derive(Default)]
struct Stale {
    by_time: BTreeSet<(Timestamp, ObjectId)>,
    objects: BTreeSet<ObjectId>,
}

impl Stale {
    fn note(&mut self, at: Timestamp, object: ObjectId) {
        if self.objects.insert(object) {
            self.by_time.insert((at, object));
        }
    }

    fn pop(&mut self, watermark: Timestamp) -> Option<ObjectId> {
        let (_, object) = self.by_time.first().filter(|(at, _)| *at <= watermark)?;
        self.objects.remove(object);
        self.by_time.pop_first().map(|(_, object)| object)
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Turn>>,
    led: bool,
}

/// A commit in the queue.
struct Turn {
    durability: Durability,
    state: Mutex<TurnState>,
    changed: Condvar,
}

enum TurnState {
    Waiting(Commit),
    /// It is this one's turn to lead the next group.
    Leads(Commit),
    /// Taken up by the leader.
    Taken,
    Done(Result<Timestamp, Refusal<Commit>>),
}

impl Database {
    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// [`Error::Held`] if another process has it open, [`Error::Format`] if something else is there,
    /// [`Error::Corrupt`] if it is damaged, [`Error::Io`] if the operating system refuses. Then nothing has changed.
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let home = Home::enter(path, options.create)?;
        // The engine needs blocks only until their objects are cached here.
        let complete = |engine: &Fjall| {
            let (synced, held) = (home.synced(), Self::core(engine, path)?.0.sequence);
            if synced <= held {
                return Ok(());
            }
            let what = format!(
                "the engine's log is damaged: it ends at commit {held}, but commit {synced} was on the disk before"
            );
            Err(Error::Corrupt { path: path.into(), what })
        };
        let engine = Fjall::open(&home.engine(), options.cache_bytes / 8, complete)?;
        home.finish()?;
        // What is left of seven eighths is lost between objects of ever-changing sizes: measured.
        let objects = options.cache_bytes / 8 * 5;
        let database = Self::on(Box::new(engine), path, objects, Some(home))?;
        Ok(database)
    }

    /// A database that is gone with its last handle.
    pub fn transient(options: &Options) -> Result<Self, Error> {
        Self::with_engine(Box::new(Memory::default()), options)
    }

    /// A database on an engine of the caller's.
    ///
    /// # Errors
    /// What the engine answers, and [`Error::Corrupt`].
    pub fn with_engine(engine: Box<dyn Engine>, options: &Options) -> Result<Self, Error> {
        Self::on(engine, Path::new("(memory)"), options.cache_bytes, None)
    }

    fn on(engine: Box<dyn Engine>, path: &Path, cache: u64, home: Option<Home>) -> Result<Self, Error> {
        let (core, next_object) = Self::core(&*engine, path)?;
        Ok(Self(Arc::new(Shared {
            path: path.into(),
            cache: Cache::new(usize::try_from(cache).unwrap_or(usize::MAX)),
            snapshots: Mutex::new(Snapshots { published: core.last, open: BTreeMap::new() }),
            queue: Mutex::default(),
            core: Mutex::new(core),
            stale: Mutex::default(),
            placing: Mutex::default(),
            next_object: AtomicU64::new(next_object.max(FIRST_FRESH)),
            failed: Mutex::default(),
            engine,
            home,
        })))
    }

    /// The core as the newest commit in `engine` left it, and the first name of an object that was never given.
    fn core(engine: &dyn Engine, path: &Path) -> Result<(Core, u64), Error> {
        let state = engine.fact(Core::STATE)?;
        let what = || "the state of the last commit is damaged".into();
        Core::restore(state.as_deref()).ok_or_else(|| Error::Corrupt { path: path.into(), what: what() })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// A snapshot of all that is committed.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshots = self.0.snapshots.lock();
        let at = snapshots.published;
        *snapshots.open.entry(at).or_default() += 1;
        Snapshot { database: self.clone(), at }
    }

    /// The newest commit that a snapshot taken now would see.
    pub fn newest(&self) -> Timestamp {
        self.0.snapshots.lock().published
    }

    /// No open snapshot is older, and none taken later will be.
    pub fn oldest_snapshot(&self) -> Timestamp {
        self.0.snapshots.lock().watermark()
    }

    /// The object as it is now, with the versions that open snapshots read; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corrupt`].
    pub fn read(&self, object: ObjectId) -> Result<Option<Arc<Object>>, Error> {
        self.0.read(object)
    }

    /// Waits until all objects are as one commit left them, if some are not. Those that are read one after the other
    /// may be of different commits all the same: who finds that they do not fit together calls this and reads again.
    pub fn settle(&self) {
        drop(self.0.placing.lock());
    }

    /// A name for a new object, never given before and above 2³².
    pub fn fresh(&self) -> ObjectId {
        ObjectId(self.0.next_object.fetch_add(1, Relaxed))
    }

    /// Commits. Unless it answers a timestamp, nothing of the commit takes place.
    ///
    /// # Errors
    /// [`Refusal::Misplaced`] gives the commit back if the objects it names no longer hold its cells;
    /// [`Error::Conflict`] if another commit since its snapshot changed one of them; [`Error::Io`] if the disk fails,
    /// after which no commit succeeds until the database is opened anew.
    pub fn commit(&self, commit: Commit, durability: Durability) -> Result<Timestamp, Refusal<Commit>> {
        let turn = Arc::new(Turn {
            durability,
            state: Mutex::new(TurnState::Waiting(commit)),
            changed: Condvar::new(),
        });
        let leads = {
            let mut queue = self.0.queue.lock();
            queue.waiting.push(turn.clone());
            !std::mem::replace(&mut queue.led, true)
        };
        if !leads && let Some(done) = turn.wait() {
            return done;
        }
        self.0.lead();
        turn.take_result()
    }

    /// Up to `limit` objects that are mostly stale: each is worth a [`crate::Restructuring::Collect`].
    pub fn stale(&self, limit: usize) -> Vec<ObjectId> {
        let watermark = self.0.snapshots.lock().watermark();
        let mut stale = self.0.stale.lock();
        std::iter::from_fn(|| stale.pop(watermark)).take(limit).collect()
    }

    /// Memory that cached objects take, bytes.
    pub fn cached_bytes(&self) -> usize {
        self.0.cache.bytes()
    }
}

/// Names below are the caller's to give.
const FIRST_FRESH: u64 = 1 << 32;

impl Shared {
    fn read(&self, id: ObjectId) -> Result<Option<Arc<Object>>, Error> {
        self.cache.get(id, || {
            let watermark = self.snapshots.lock().watermark();
            let mut loading = Loading::default();
            self.engine.load(id, &mut |sequence, entry| loading.entry(id, sequence, entry, watermark))?;
            loading.finish().map_err(|what| Error::Corrupt { path: self.path.clone(), what })
        })
    }

    /// Commits everything that waits, then hands the lead on.
    fn lead(&self) {
        let group = std::mem::take(&mut self.queue.lock().waiting);
        let commits: Vec<_> = group.iter().filter_map(|turn| turn.take_commit()).collect();
        let attempt = panic::catch_unwind(AssertUnwindSafe(|| self.commit_group(commits, &group)));
        let results = attempt.unwrap_or_else(|_| {
            // Whoever waits must hear of it, and nothing may build on what was left undone.
            let message = "a defect of the program".into();
            let reason = Reason { kind: io::ErrorKind::Other, message };
            let reason = self.failed.lock().get_or_insert(reason).clone();
            group.iter().map(|_| Err(self.latched(&reason).into())).collect()
        });
        let mut queue = self.queue.lock();
        match queue.waiting.first() {
            Some(next) => next.lead(),
            None => queue.led = false,
        }
        drop(queue);
        for (turn, result) in group.iter().zip(results) {
            turn.finish(result);
        }
    }

    fn commit_group(
        &self,
        commits: Vec<Commit>,
        group: &[Arc<Turn>],
    ) -> Vec<Result<Timestamp, Refusal<Commit>>> {
        if let Some(reason) = &*self.failed.lock() {
            return commits.iter().map(|_| Err(self.latched(reason).into())).collect();
        }
        let mut core = self.core.lock();
        let read = |id| self.read(id);
        let mut staged = Staged::new(&read, self.snapshots.lock().watermark());
        let results: Vec<_> = commits
            .into_iter()
            .map(|commit| match core.execute(&commit, &mut staged) {
                Ok(at) => Ok(at),
                Err(Refusal::Misplaced(())) => Err(Refusal::Misplaced(commit)),
                Err(Refusal::Failed(error)) => Err(Refusal::Failed(error)),
            })
            .collect();
        if staged.batch.writes.is_empty() {
            return results;
        }
        let Staged { objects, mut batch, stale, .. } = staged;
        for (at, object) in stale {
            self.stale.lock().note(at, object);
        }
        core.save(self.next_object.load(Relaxed), &mut batch);
        let last = core.last;
        let sync = group.iter().any(|turn| turn.durability == Durability::Synced);
        let written = self.place(batch, objects).and_then(|()| {
            if sync {
                self.engine.sync()?;
                if let Some(home) = &self.home {
                    home.note_synced(core.sequence)?;
                }
            }
            Ok(())
        });
        if let Err(error) = written {
            // What of the group is on the disk is unknown: nothing may build on it before recovery has looked.
            let kind = match &error {
                Error::Io { source, .. } => source.kind(),
                _ => io::ErrorKind::Other,
            };
            let reason = Reason { kind, message: error.to_string() };
            *self.failed.lock() = Some(reason.clone());
            let mut cause = Some(error);
            return results
                .into_iter()
                .map(|result| {
                    result.and_then(|_| Err(cause.take().unwrap_or_else(|| self.latched(&reason)).into()))
                })
                .collect();
        }
        self.snapshots.lock().published = last;
        results
    }

    /// Makes the objects of a group of commits what readers find.
    fn place(&self, batch: Batch, objects: BTreeMap<ObjectId, Option<Arc<Object>>>) -> Result<(), Error> {
        let _placing = self.placing.lock();
        self.engine.write(batch)?;
        for (id, object) in objects {
            self.cache.store(id, object);
        }
        Ok(())
    }

    fn latched(&self, Reason { kind, message }: &Reason) -> Error {
        let what = format!("no more commits after a failed one ({message}); open the database anew");
        Error::Io { path: self.path.clone(), source: io::Error::new(*kind, what) }
    }
}

impl Turn {
    /// The result, or `None` when it is this one's turn to lead.
    fn wait(&self) -> Option<Result<Timestamp, Refusal<Commit>>> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, TurnState::Taken) {
                TurnState::Done(result) => return Some(result),
                TurnState::Leads(commit) => {
                    *state = TurnState::Leads(commit);
                    return None;
                }
                other => *state = other,
            }
            self.changed.wait(&mut state);
        }
    }

    fn lead(&self) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, TurnState::Taken) {
            TurnState::Waiting(commit) => *state = TurnState::Leads(commit),
            other => *state = other,
        }
        self.changed.notify_one();
    }

    fn take_commit(&self) -> Option<Commit> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, TurnState::Taken) {
            TurnState::Waiting(commit) | TurnState::Leads(commit) => Some(commit),
            other => {
                *state = other;
                None
            }
        }
    }

    fn finish(&self, result: Result<Timestamp, Refusal<Commit>>) {
        *self.state.lock() = TurnState::Done(result);
        self.changed.notify_one();
    }

    fn take_result(&self) -> Result<Timestamp, Refusal<Commit>> {
        match std::mem::replace(&mut *self.state.lock(), TurnState::Taken) {
            TurnState::Done(result) => result,
            _ => unreachable!("a leader finishes its own turn"),
        }
    }
}

/// Keeps what was committed at [`Snapshot::at`] readable for as long as it lives.
pub struct Snapshot {
    database: Database,
    at: Timestamp,
}

impl Snapshot {
    /// The newest commit that it sees.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The database that it belongs to.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut snapshots = self.database.0.snapshots.lock();
        if let Some(readers) = snapshots.open.get_mut(&self.at) {
            *readers -= 1;
            if *readers == 0 {
                snapshots.open.remove(&self.at);
            }
        }
    }
}
