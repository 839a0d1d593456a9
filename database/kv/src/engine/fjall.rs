//! Entries in fjall, a log-structured merge tree. Why this engine and with these settings: `docs/engines.md`.

mod limit;
mod log;
mod reader;
#[cfg(test)]
mod tests;

use super::{Batch, Engine, EngineWrite};
use crate::{Error, ObjectId};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvPair, PersistMode, SeqNo,
};
use fulmar_locks::{Mutex, RwLock};
use lsm_tree::Guard;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::RangeBounds;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use limit::WriteLimit;
use log::{Log, Logs, ShortLog};
use reader::Reader;

/// A table in memory is written to the disk when it is larger, bytes.
const MEMORY_TABLE_BYTES: u64 = 16 << 20;
/// After so many bytes in its log all that is in memory goes to tables: a process that was killed has no more to replay. That takes
/// a tenth of a second.
const UNFLUSHED_BYTES: u64 = 8 << 20;
/// With so many tables in memory that wait to be written, fjall makes every commit wait.
const WAITING_TABLES: usize = 4;
/// With so many runs of tables on the lowest level that wait to be merged, too.
const WAITING_RUNS: usize = 30;
/// When it is closed with more in its log, bytes, that goes to tables: to replay so much takes a millisecond, when it is opened.
const REPLAYED_BYTES: u64 = 1 << 20;
/// It begins another log after 64 MB. As soon as a whole one is over, what of it is only in memory goes to tables, and it is
/// removed: this is the least that it takes.
const FINISHED_LOGS_BYTES: u64 = 64 << 20;

/// A fjall database in a directory of its own.
///
/// Until something is written only its trees are open: no thread is started, and no file of a database changes that was closed in
/// good order.
pub struct Fjall {
    trees: Arc<Trees>,
    limit: Option<WriteLimit>,
}

/// What is open of it.
struct Trees {
    path: PathBuf,
    cache_bytes: u64,
    /// Whether fjall was to start, which makes files even if it fails.
    has_started: AtomicBool,
    /// The last write, among those of all that share its limit.
    written_at: AtomicU64,
    /// Held shared by loads and alone by a write: fjall's snapshots do not keep a load from a batch that is half inserted,
    /// as a flush that ends just then makes it visible. Nothing is open while another is written to in its place.
    opened: RwLock<Option<Opened>>,
}

enum Opened {
    ToRead(Reader),
    ToWrite(Arc<Writer>),
}

/// The database with all that fjall does for it.
struct Writer {
    path: PathBuf,
    entries: Keyspace,
    facts: Keyspace,
    database: Database,
    /// Below the database: cut when that is closed.
    log: Log,
    /// About how much is in it, bytes.
    logged: AtomicU64,
    compaction: Mutex<Option<JoinHandle<()>>>,
}

impl Fjall {
    /// Opens the database in `path`, making it if it does not exist, with at most `cache_bytes` of blocks cached.
    ///
    /// What follows the last whole batch of the log is dropped if `complete` finds nothing missing then, as after a power
    /// cut in the midst of a write. Otherwise the log is left as it was. `complete` is told the value of the fact `marker`,
    /// which grows with what is written; it answers whether all of that is known to survive the loss of power. It does in any
    /// case when this returns.
    ///
    /// # Errors
    /// [`Error::Io`] if the operating system refuses, [`Error::Corrupt`] if the files are damaged, or what `complete`
    /// answers.
    pub fn open(
        path: &Path,
        cache_bytes: u64,
        marker: &str,
        complete: impl Fn(Option<&[u8]>) -> Result<bool, Error>,
    ) -> Result<Self, Error> {
        is_complete(path)?;
        let Logs { short, torn, marked } = Logs::look(path, marker, |value| complete(Some(value)).is_ok())?;
        if let Some(marked) = marked
            && let Ok(is_synced) = complete(Some(&marked))
        {
            renew_log(path, short.is_none(), is_synced)?;
        }
        let opened = Opened::with(path, cache_bytes, short.as_ref());
        let completed = opened.and_then(|opened| {
            let engine = Self { trees: Arc::new(Trees::of(path, cache_bytes, opened)), limit: None };
            let is_synced = complete(engine.fact(marker)?.as_deref())?;
            match &short {
                Some(log) if !is_synced && !engine.changes_files() => log.sync()?,
                _ => {}
            }
            Ok(engine)
        });
        match torn {
            Some(torn) if completed.is_ok() => torn.forget()?,
            Some(torn) => torn.put_back()?,
            None => {}
        }
        completed
    }

    /// It shares `limit` from now on, if there is one.
    pub(crate) fn limited(mut self, limit: Option<WriteLimit>) -> Self {
        self.limit = limit;
        if self.trees.is_written() {
            self.enter();
        }
        self
    }

    fn enter(&self) {
        if let Some(limit) = &self.limit {
            limit.enter(&self.trees);
        }
    }

    /// The database as it is written to, if it is.
    fn written(&self) -> Option<Arc<Writer>> {
        self.trees.opened.read().as_ref().and_then(Opened::writer).cloned()
    }

    /// The database as it is written to, from now on.
    fn writer(&self) -> Result<Arc<Writer>, Error> {
        if let Some(writer) = self.written() {
            return Ok(writer);
        }
        let mut opened = self.trees.opened.write();
        if let Some(writer) = opened.as_ref().and_then(Opened::writer) {
            // Another thread was first.
            return Ok(Arc::clone(writer));
        }
        self.trees.has_started.store(true, Relaxed);
        let writer = Arc::new(Writer::open(&self.trees.path, self.trees.cache_bytes)?);
        *opened = Some(Opened::ToWrite(Arc::clone(&writer)));
        drop(opened);
        self.enter();
        Ok(writer)
    }

    /// Reads from the database, which is opened if it is not.
    fn read<R>(&self, read: impl FnOnce(&Opened) -> Result<R, Error>) -> Result<R, Error> {
        loop {
            if let Some(opened) = &*self.trees.opened.read() {
                return read(opened);
            }
            if self.trees.open_again()? {
                self.enter();
            }
        }
    }

    fn fault(&self, error: impl Into<fjall::Error>) -> Error {
        fault(&self.trees.path, error.into())
    }
}

impl Drop for Fjall {
    /// Who makes room for another may still look at it.
    fn drop(&mut self) {
        *self.trees.opened.write() = None;
    }
}

impl Trees {
    fn of(path: &Path, cache_bytes: u64, opened: Opened) -> Self {
        let is_written = opened.writer().is_some();
        Self {
            path: path.into(),
            cache_bytes,
            has_started: AtomicBool::new(is_written),
            written_at: AtomicU64::new(0),
            opened: RwLock::new(Some(opened)),
        }
    }

    fn is_written(&self) -> bool {
        // Who opens it to be written to holds it alone.
        self.opened.try_read().is_none_or(|opened| opened.as_ref().is_some_and(|o| o.writer().is_some()))
    }

    /// Opens what was closed in good order, and synced, unless somebody was first; and says whether it is open to be written to.
    fn open_again(&self) -> Result<bool, Error> {
        let mut opened = self.opened.write();
        if opened.is_none() {
            let Logs { short, .. } = Logs::look(&self.path, "", |_| true)?;
            *opened = Some(Opened::with(&self.path, self.cache_bytes, short.as_ref())?);
        }
        Ok(opened.as_ref().is_some_and(|opened| opened.writer().is_some()))
    }

    /// Closes what is open to be written to, unless it is used just now, or something has failed; and says whether it has.
    fn rest(&self) -> bool {
        let Some(mut opened) = self.opened.try_write() else { return false };
        let Some(Opened::ToWrite(writer)) = &mut *opened else { return false };
        // Whoever writes or syncs has it, too.
        let may_rest = Arc::get_mut(writer).is_some_and(|writer| writer.may_rest());
        if may_rest {
            *opened = None;
        }
        may_rest
    }
}

impl Opened {
    /// Opens the database whose log this is, if it is short.
    fn with(path: &Path, cache_bytes: u64, log: Option<&ShortLog>) -> Result<Self, Error> {
        // What is found to be damaged here is not left to fjall to refuse: that tidies up elsewhere first.
        let read = |log| Reader::open(path, cache_bytes, log).map_err(|e| fault(path, e));
        let reader = match log {
            Some(log) => catch_damage(path, || read(log))?,
            None => None,
        };
        Ok(match reader {
            Some(reader) => Self::ToRead(reader),
            None => Self::ToWrite(Arc::new(Writer::open(path, cache_bytes)?)),
        })
    }

    const fn writer(&self) -> Option<&Arc<Writer>> {
        match self {
            Self::ToRead(_) => None,
            Self::ToWrite(writer) => Some(writer),
        }
    }

    /// The entries whose keys are in `range`.
    fn entries(
        &self,
        range: impl RangeBounds<[u8; 16]>,
    ) -> Box<dyn Iterator<Item = fjall::Result<KvPair>> + '_> {
        match self {
            Self::ToRead(reader) => {
                let entries = reader.entries.range(range, SeqNo::MAX, None);
                Box::new(entries.map(|entry| Ok(entry.into_inner()?)))
            }
            Self::ToWrite(writer) => Box::new(writer.entries.range(range).map(|entry| entry.into_inner())),
        }
    }
}

impl Writer {
    fn open(path: &Path, cache_bytes: u64) -> Result<Self, Error> {
        catch_damage(path, || Self::open_sound(path, cache_bytes))
    }

    fn open_sound(path: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let fault = |e| fault(path, e);
        let keyspaces = path.join("keyspaces");
        let is_new = !is_made(&keyspaces);
        let database = Database::builder(path)
            .cache_size(cache_bytes)
            .worker_threads(4)
            .journal_compression(CompressionType::None)
            .max_journaling_size(FINISHED_LOGS_BYTES)
            .open()
            .map_err(fault)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMORY_TABLE_BYTES);
        let entries = database.keyspace("entries", options).map_err(fault)?;
        let facts = database.keyspace("facts", options).map_err(fault)?;
        if is_new {
            // It does not sync the names of keyspaces that it has made.
            sync_directory(&keyspaces).map_err(|e| Error::io(&keyspaces, e))?;
        }
        let log = Log::newest(path).map_err(|e| Error::io(path, e))?;
        // What is reserved in a new one is not cut off yet.
        let logged = AtomicU64::new(if is_new { 0 } else { log.bytes() });
        Ok(Self { path: path.into(), entries, facts, database, log, logged, compaction: Mutex::default() })
    }

    /// Waits until fjall will not: in a commit it would not notice when the threads that should make room have ended
    /// after an error, and never return.
    #[expect(clippy::disallowed_methods, reason = "fjall does not tell when it has made room")]
    fn wait_for_room(&self, batch: &Batch) -> Result<(), Error> {
        // The table in memory that is full now, and one that this batch fills.
        let filled = if batch.bytes() < MEMORY_TABLE_BYTES / 2 { 1 } else { 2 };
        let crowded = |keyspace: &Keyspace| {
            keyspace.sealed_memtable_count() + filled >= WAITING_TABLES
                || keyspace.tree.l0_run_count() + WAITING_TABLES >= WAITING_RUNS
        };
        while crowded(&self.entries) || crowded(&self.facts) {
            self.require_sound()?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Answers why something that fjall did in the background has failed.
    fn require_sound(&self) -> Result<(), Error> {
        // Nothing is left to flush, so it does nothing else.
        self.database.persist(PersistMode::Buffer).map_err(|e| self.fault(e))
    }

    /// Syncs what was written, and says whether all of it was, and nothing is done for a while yet.
    fn may_rest(&mut self) -> bool {
        let is_merged = self.compaction.get_mut().as_ref().is_none_or(JoinHandle::is_finished);
        is_merged && self.require_sound().is_ok() && self.log.is_whole() && self.log.sync().is_ok()
    }

    fn compact(&self, replaced: u64) {
        let mut compaction = self.compaction.lock();
        let is_running = compaction.as_ref().is_some_and(|running| !running.is_finished());
        if is_running || replaced < self.entries.disk_space() / 4 {
            return;
        }
        let (database, entries) = (self.database.clone(), self.entries.clone());
        let merge = move || {
            // What fails here leaves all as it was.
            let _ = flush(&database, &[&entries]).and_then(|()| {
                entries.major_compact()?;
                // It keeps what was merged for snapshots of its own, of which we take none, until the table in memory is full.
                Ok(entries.tree.get_version_history_lock().maintenance(entries.path(), SeqNo::MAX)?)
            });
        };
        *compaction = thread::Builder::new().name("compaction".into()).spawn(merge).ok();
    }

    fn fault(&self, error: fjall::Error) -> Error {
        fault(&self.path, error)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(compaction) = self.compaction.get_mut().take() {
            // If it has panicked, what it was to replace is still there.
            let _ = compaction.join();
        }
        // What fails is in the log, and is replayed.
        if self.logged.load(Relaxed) > REPLAYED_BYTES
            && flush(&self.database, &[&self.entries, &self.facts]).is_ok()
        {
            self.log.empty_when_closed();
        }
    }
}

/// Writes to tables what is in memory.
#[expect(
    clippy::disallowed_methods,
    reason = "fjall would wait without noticing that its threads have ended"
)]
fn flush(database: &Database, keyspaces: &[&Keyspace]) -> fjall::Result<()> {
    for keyspace in keyspaces {
        keyspace.rotate_memtable()?;
    }
    while keyspaces.iter().any(|keyspace| keyspace.sealed_memtable_count() > 0) {
        database.persist(PersistMode::Buffer)?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Engine for Fjall {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let writer = self.writer()?;
        if let Some(limit) = &self.limit {
            limit.note(&self.trees);
        }
        writer.wait_for_room(&batch)?;
        let bytes = batch.bytes();
        let logged = writer.logged.fetch_add(bytes, Relaxed);
        let mut atomic = writer.database.batch();
        for write in last_writes(batch) {
            match write {
                EngineWrite::Put { object, sequence, entry } => {
                    atomic.insert(&writer.entries, key(object, sequence), entry);
                }
                EngineWrite::Remove { object, sequence } => {
                    atomic.remove(&writer.entries, key(object, sequence))
                }
                EngineWrite::Fact { name, value } => atomic.insert(&writer.facts, name, value),
            }
        }
        let alone = self.trees.opened.write();
        let committed = atomic.durability(Some(PersistMode::Buffer)).commit();
        drop(alone);
        if let Err(error) = committed {
            writer.log.end_with_what_is_whole();
            return Err(self.fault(error));
        }
        if logged / UNFLUSHED_BYTES != (logged + bytes) / UNFLUSHED_BYTES {
            for keyspace in [&writer.entries, &writer.facts] {
                // The batch is written. What fails here fails the next one, too.
                let _ = keyspace.rotate_memtable();
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        // What was there when it was opened was synced then, and before it was closed for a while.
        let Some(writer) = self.written() else { return Ok(()) };
        // fjall would not, once a table could not be written; the batch is in the log all the same, and will be found there.
        writer.log.sync().map_err(|e| Error::io(&self.trees.path, e))
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.read(|opened| {
            for entry in opened.entries(key(object, 0)..=key(object, u64::MAX)) {
                let (key, value) = entry.map_err(|e| self.fault(e))?;
                let sequence = key.last_chunk().map_or(0, |s| u64::from_be_bytes(*s));
                visit(sequence, &value);
            }
            Ok(())
        })
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.read(|opened| {
            let Some(entry) = opened.entries(key(from, 0)..).next() else { return Ok(None) };
            let (key, _) = entry.map_err(|e| self.fault(e))?;
            Ok(key.first_chunk().map(|object| ObjectId(u64::from_be_bytes(*object))))
        })
    }

    /// By itself it merges the first tables when there are four, and finds out what was replaced in others much later.
    fn compact(&self, replaced: u64) {
        if let Some(writer) = self.written() {
            writer.compact(replaced);
        }
    }

    fn changes_files(&self) -> bool {
        self.trees.has_started.load(Relaxed)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read(|opened| {
            let value = match opened {
                Opened::ToRead(reader) => reader.facts.get(name, SeqNo::MAX).map_err(|e| self.fault(e))?,
                Opened::ToWrite(writer) => writer.facts.get(name).map_err(|e| self.fault(e))?,
            };
            Ok(value.map(|v| v.to_vec()))
        })
    }
}

/// The batch without writes that a later one of the same key undoes: fjall gives all of a batch one sequence number, so
/// of two writes of one key either may win.
fn last_writes(batch: Batch) -> impl Iterator<Item = EngineWrite> {
    let mut writes: Vec<_> = batch.writes.into_iter().enumerate().collect();
    let place = |write: &EngineWrite| match write {
        EngineWrite::Put { object, sequence, .. } | EngineWrite::Remove { object, sequence } => {
            (Some((*object, *sequence)), "")
        }
        EngineWrite::Fact { name, .. } => (None, *name),
    };
    writes.sort_unstable_by(|(m, a), (n, b)| place(a).cmp(&place(b)).then(n.cmp(m)));
    writes.dedup_by(|(_, later), (_, kept)| place(later) == place(kept));
    writes.into_iter().map(|(_, write)| write)
}

/// fjall and its trees assert of their files what they should check.
fn catch_damage<T>(
    path: &Path,
    open: impl FnOnce() -> Result<T, Error> + panic::UnwindSafe,
) -> Result<T, Error> {
    let what = || "the engine's files are damaged".into();
    panic::catch_unwind(open).unwrap_or_else(|_| Err(Error::Corrupt { path: path.into(), what: what() }))
}

/// Writes what is in the newest log, and in no table, to another file, if that is needed.
fn renew_log(path: &Path, is_long: bool, is_synced: bool) -> Result<(), Error> {
    // What is damaged is for fjall to refuse.
    let in_tables = if is_long { in_tables(path).ok().flatten() } else { None };
    match log::renew(path, in_tables, is_synced) {
        // A full disk has no room for another file: the log is synced as it is.
        Err(error) if !is_synced && !is_full(&error) => Err(Error::io(path, error)),
        // What was only to be shorter takes longer to read.
        _ => Ok(()),
    }
}

/// Up to which sequence number tables have all that was written, also after a loss of power.
fn in_tables(path: &Path) -> Result<Option<u64>, Error> {
    let found = catch_damage(path, || Reader::in_tables(path).map_err(|e| fault(path, e)))?;
    // The process that wrote them may have been killed before it synced their names.
    for keyspace in ["1", "2"] {
        let directory = path.join("keyspaces").join(keyspace);
        sync_directory(&directory).map_err(|e| Error::io(&directory, e))?;
    }
    Ok(found)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// fjall makes anew what has no current version, and removes the tables there: its own keyspace, and our two.
fn is_complete(path: &Path) -> Result<(), Error> {
    let keyspaces = path.join("keyspaces");
    // It is there when that is written.
    if !keyspaces.exists() && !path.join("version").exists() {
        return Ok(());
    }
    for keyspace in ["0", "1", "2"] {
        let current = keyspaces.join(keyspace).join("current");
        if !current.exists() {
            return Err(Error::Corrupt { path: current, what: "the file is missing".into() });
        }
    }
    Ok(())
}

/// Whether both our keyspaces are there. A directory in which they were made and not synced is no database yet, and is made anew.
fn is_made(keyspaces: &Path) -> bool {
    ["1", "2"].iter().all(|keyspace| keyspaces.join(keyspace).exists())
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn key(object: ObjectId, sequence: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&object.0.to_be_bytes());
    key[8..].copy_from_slice(&sequence.to_be_bytes());
    key
}

fn fault(path: &Path, error: fjall::Error) -> Error {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            Error::io(path, source)
        }
        // A table was written in the background: without room for one that is why.
        fjall::Error::Poisoned if has_no_room(path) => {
            Error::io(path, io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error()))
        }
        fjall::Error::Poisoned => Error::Io {
            path: path.into(),
            source: io::Error::other("an earlier write failed; close the database and open it again"),
        },
        damaged => Error::Corrupt { path: path.into(), what: damaged.to_string() },
    }
}

fn has_no_room(path: &Path) -> bool {
    let room = rustix::fs::statvfs(path).map(|system| system.f_bavail.saturating_mul(system.f_frsize));
    room.is_ok_and(|room| room < MEMORY_TABLE_BYTES)
}
