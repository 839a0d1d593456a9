//! Entries in fjall, a log-structured merge tree. Why this engine and with these settings: `docs/engines.md`.

mod log;

use super::{Batch, Engine, EngineWrite};
use crate::{Error, ObjectId};
use fjall::{AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use log::{Log, TornTail};

/// A table in memory is written to the disk when it is larger, bytes.
const MEMORY_TABLE_BYTES: u64 = 16 << 20;
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
pub struct Fjall {
    path: PathBuf,
    entries: Keyspace,
    facts: Keyspace,
    database: Database,
    /// Below the database: emptied when that is closed.
    log: Log,
    /// About how much is in it, bytes.
    logged: AtomicU64,
    compaction: Mutex<Option<JoinHandle<()>>>,
    /// Held shared by loads and alone by a write: fjall's snapshots do not keep a load from a batch that is half inserted,
    /// as a flush that ends just then makes it visible.
    inserting: RwLock<()>,
}

impl Fjall {
    /// Opens the database in `path`, making it if it does not exist, with at most `cache_bytes` of blocks cached.
    ///
    /// What follows the last whole batch of the log is dropped if `complete` finds nothing missing then, as after a power
    /// cut in the midst of a write. Otherwise the log is left as it was. `complete` is told the value of the fact `marker`,
    /// which grows with what is written.
    ///
    /// # Errors
    /// [`Error::Io`] if the operating system refuses, [`Error::Corrupt`] if the files are damaged, or what `complete`
    /// answers.
    pub fn open(
        path: &Path,
        cache_bytes: u64,
        marker: &str,
        complete: impl Fn(Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        is_complete(path)?;
        let torn = TornTail::cut(path, marker, |value| complete(Some(value)).is_ok())?;
        // It asserts of its files what it should check.
        let opened = panic::catch_unwind(|| Self::open_sound(path, cache_bytes));
        let what = || "the engine's files are damaged".into();
        let opened = opened.unwrap_or_else(|_| Err(Error::Corrupt { path: path.into(), what: what() }));
        let completed = opened.and_then(|engine| {
            complete(engine.fact(marker)?.as_deref())?;
            Ok(engine)
        });
        if let Some(torn) = torn {
            match completed {
                Ok(_) => torn.forget()?,
                Err(_) => torn.put_back()?,
            }
        }
        completed
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
        let log = Log::newest(path);
        // What is reserved in a new one is not cut off yet.
        let logged = AtomicU64::new(if is_new { 0 } else { log.bytes() });
        let (inserting, compaction) = (RwLock::default(), Mutex::default());
        Ok(Self { path: path.into(), entries, facts, database, log, logged, compaction, inserting })
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
            // Nothing is left to flush, so this only answers whether there was an error.
            self.database.persist(PersistMode::Buffer).map_err(|e| self.fault(e))?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn fault(&self, error: fjall::Error) -> Error {
        fault(&self.path, error)
    }
}

impl Drop for Fjall {
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
        self.wait_for_room(&batch)?;
        self.logged.fetch_add(batch.bytes(), Relaxed);
        let mut atomic = self.database.batch();
        for write in last_writes(batch) {
            match write {
                EngineWrite::Put { object, sequence, entry } => {
                    atomic.insert(&self.entries, key(object, sequence), entry);
                }
                EngineWrite::Remove { object, sequence } => {
                    atomic.remove(&self.entries, key(object, sequence))
                }
                EngineWrite::Fact { name, value } => atomic.insert(&self.facts, name, value),
            }
        }
        let _alone = self.inserting.write();
        atomic.durability(Some(PersistMode::Buffer)).commit().map_err(|e| self.fault(e))
    }

    fn sync(&self) -> Result<(), Error> {
        self.database.persist(PersistMode::SyncData).map_err(|e| self.fault(e))
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        let _whole = self.inserting.read();
        for entry in self.entries.prefix(object.0.to_be_bytes()) {
            let (key, value) = entry.into_inner().map_err(|e| self.fault(e))?;
            let sequence = key.last_chunk().map_or(0, |s| u64::from_be_bytes(*s));
            visit(sequence, &value);
        }
        Ok(())
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        let _whole = self.inserting.read();
        let Some(entry) = self.entries.range(from.0.to_be_bytes()..).next() else { return Ok(None) };
        let key = entry.key().map_err(|e| self.fault(e))?;
        Ok(key.first_chunk().map(|object| ObjectId(u64::from_be_bytes(*object))))
    }

    /// By itself it merges the first tables when there are four, and finds out what was replaced in others much later.
    fn compact(&self, replaced: u64) {
        let mut compaction = self.compaction.lock();
        let is_running = compaction.as_ref().is_some_and(|running| !running.is_finished());
        if is_running || replaced < self.entries.disk_space() / 4 {
            return;
        }
        let (database, entries) = (self.database.clone(), self.entries.clone());
        let merge = move || {
            // What fails here leaves all as it was.
            let _ = flush(&database, &[&entries]).and_then(|()| entries.major_compact());
        };
        *compaction = thread::Builder::new().name("compaction".into()).spawn(merge).ok();
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let value = self.facts.get(name).map_err(|e| self.fault(e))?;
        Ok(value.map(|v| v.to_vec()))
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

/// fjall makes anew what has no current version, and removes the tables there: its own keyspace, and our two.
fn is_complete(path: &Path) -> Result<(), Error> {
    let keyspaces = path.join("keyspaces");
    if !keyspaces.exists() {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use crate::engine::Memory;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn a_load_sees_a_batch_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let fjall = Fjall::open(&directory.path().join("engine"), 1 << 20, "marker", |_| Ok(())).unwrap();
        let object = ObjectId(1);
        let put = |sequence| EngineWrite::Put { object, sequence, entry: vec![0] };
        fjall.write(Batch { writes: vec![put(0)] }).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for sequence in 0..20_000 {
                    let writes = vec![EngineWrite::Remove { object, sequence }, put(sequence + 1)];
                    fjall.write(Batch { writes }).unwrap();
                }
            });
            while !writer.is_finished() {
                let mut found = Vec::new();
                fjall.load(object, &mut |sequence, _| found.push(sequence)).unwrap();
                assert_eq!(found.len(), 1, "{found:?}");
            }
        });
    }

    /// A disk that is full has no room for a copy of the log, and yet the database must open.
    #[test]
    fn a_torn_tail_is_cut_without_a_copy_if_the_log_shows_that_nothing_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine");
        let open = |least: u8| {
            Fjall::open(&path, 1 << 20, "marker", |value| match value {
                Some([marker]) if *marker >= least => Ok(()),
                _ => Err(Error::Conflict),
            })
        };
        let fact = |value| EngineWrite::Fact { name: "marker", value: vec![value] };
        let first = Fjall::open(&path, 1 << 20, "marker", |_| Ok(())).unwrap();
        for value in [1, 2] {
            first.write(Batch { writes: vec![fact(value)] }).unwrap();
        }
        drop(first);
        // As many bytes as the disk took of a batch; and where a copy of the log would be, there cannot be one.
        let log = path.join("0.jnl");
        let mut whole = std::fs::read(&log).unwrap();
        whole.truncate(whole.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        let torn = [&whole[..], &whole[..20]].concat();
        std::fs::write(&log, &torn).unwrap();
        std::fs::create_dir(log.with_extension("copy")).unwrap();
        assert!(matches!(open(3), Err(Error::Io { .. })));
        assert_eq!(std::fs::read(&log).unwrap(), torn, "it is left as it was found");
        assert_eq!(open(2).unwrap().fact("marker").unwrap(), Some(vec![2]));
        assert_eq!(std::fs::read(&log).unwrap(), whole);
    }

    /// It hung in a commit when writing tables failed while four of them waited.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "that the writer waits shows only in what it does not do")]
    fn a_write_that_waits_for_room_hears_of_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine");
        let fjall = Fjall::open(&path, 1 << 20, "marker", |_| Ok(())).unwrap();
        let written = AtomicU64::new(0);
        let writes_until_it_fails = || {
            loop {
                let sequence = written.fetch_add(1, Relaxed);
                let entry = vec![0; 1 << 20];
                let writes = vec![EngineWrite::Put { object: ObjectId(1), sequence, entry }];
                if let Err(error) = fjall.write(Batch { writes }) {
                    return error;
                }
            }
        };
        thread::scope(|scope| {
            let no_table_is_written = fjall.entries.tree.get_flush_lock();
            let writer = scope.spawn(writes_until_it_fails);
            let mut before = None;
            // Until it waits.
            while before != Some(written.load(Relaxed)) {
                before = Some(written.load(Relaxed));
                (0..100_000).for_each(|_| thread::yield_now());
            }
            std::fs::remove_dir(path.join("keyspaces/1/tables")).unwrap();
            drop(no_table_is_written);
            assert!(matches!(writer.join().unwrap(), Error::Io { .. }));
        });
    }

    #[test]
    fn what_was_replaced_takes_no_space_after_a_compaction() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine");
        let mut engine = Fjall::open(&path, 1 << 20, "marker", |_| Ok(())).unwrap();
        let write = |engine: &Fjall, round: u8, bytes: usize| {
            let put = |sequence: u64| {
                // It does not compress to nothing.
                let mut random = crate::random::Random(u64::from(round) << 8 | sequence);
                let entry = (0..bytes).map(|_| random.next().to_le_bytes()[0]).collect();
                EngineWrite::Put { object: ObjectId(1), sequence, entry }
            };
            engine.write(Batch { writes: (0..20).map(put).collect() }).unwrap();
        };
        write(&engine, 0, 1 << 18);
        flush(&engine.database, &[&engine.entries]).unwrap();
        let before = engine.entries.disk_space();
        write(&engine, 1, 1);
        engine.compact(before / 8);
        assert!(engine.compaction.get_mut().is_none(), "not worth it");
        engine.compact(before);
        engine.compaction.get_mut().take().unwrap().join().unwrap();
        let after = engine.entries.disk_space();
        assert!(after < before / 10, "{after} of {before} bytes");
    }

    /// To replay 40 MB took 40 ms, each time.
    #[test]
    fn a_long_log_is_in_tables_when_it_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine");
        let complete = |value: Option<&[u8]>| if value == Some(&[1]) { Ok(()) } else { Err(Error::Conflict) };
        let first = Fjall::open(&path, 1 << 20, "marker", |_| Ok(())).unwrap();
        let put = |sequence, bytes| EngineWrite::Put { object: ObjectId(1), sequence, entry: vec![7; bytes] };
        let marker = EngineWrite::Fact { name: "marker", value: vec![1] };
        first.write(Batch { writes: vec![put(0, 2 << 20), put(1, 1), marker] }).unwrap();
        drop(first);
        assert_eq!(path.join("0.jnl").metadata().unwrap().len(), 0);
        for sequence in 2..4 {
            // What comes next is not taken for older than what is there.
            let again = Fjall::open(&path, 1 << 20, "marker", complete).unwrap();
            again.write(Batch { writes: vec![put(1, sequence), put(sequence as u64, 1)] }).unwrap();
            drop(again);
            assert!(path.join("0.jnl").metadata().unwrap().len() > 0, "a short one is replayed");
            let again = Fjall::open(&path, 1 << 20, "marker", complete).unwrap();
            let mut found = Vec::new();
            again.load(ObjectId(1), &mut |_, entry| found.push(entry.len())).unwrap();
            assert_eq!(found[..2], [2 << 20, sequence]);
            assert_eq!(found.len(), sequence + 1);
        }
    }

    /// Also what [`Memory`] does, which everything else is tested on.
    #[test]
    fn the_last_write_of_a_batch_counts() {
        let directory = tempfile::tempdir().unwrap();
        let fjall = Fjall::open(&directory.path().join("engine"), 1 << 20, "marker", |_| Ok(())).unwrap();
        for engine in [&fjall as &dyn Engine, &Memory::default()] {
            let object = ObjectId(1);
            let put = |sequence, text: &str| EngineWrite::Put { object, sequence, entry: text.into() };
            let remove = |sequence| EngineWrite::Remove { object, sequence };
            for round in 0..100 {
                let writes =
                    vec![put(1, "gone"), put(2, "old"), remove(1), put(3, "new"), remove(2), put(2, "kept")];
                engine.write(Batch { writes }).unwrap();
                let mut found = Vec::new();
                engine.load(object, &mut |sequence, entry| found.push((sequence, entry.to_vec()))).unwrap();
                assert_eq!(found, [(2, b"kept".to_vec()), (3, b"new".to_vec())], "round {round}");
            }
        }
    }
}
