//! What a power cut leaves of fjall's log: a batch that was being written may lack any of its pages.
//!
//! fjall ignores a tail that was never written, but refuses to open a log whose last batch has a wrong checksum, and
//! ends a log silently at a damaged marker in its middle. So the log is looked at first. A tail that no sync covered
//! is cut off; everything else is damage, and left as it is. A short log that is whole is kept as it was read, for whoever
//! reads the database without fjall.
//!
//! The log is a sequence of batches: a start (tag 1, count of items, sequence number), items (tag 2), an end (tag 3,
//! checksum of the items, magic). Clearing a keyspace (tag 4) does not happen here. Numbers are little-endian.
//!
//! *Known as:* the write-ahead log, redo log.

use super::REPLAYED_BYTES;
use crate::Error;
use fulmar_locks::Mutex;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek};
use std::mem::take;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: [u8; 4] = *b"FJL\x03";
const VALUE: u8 = 0;
const TOMBSTONE: u8 = 1;
const NOT_COMPRESSED: u8 = 0;
/// The keyspaces, in the order in which they were made, after fjall's own.
pub(super) const ENTRIES: u64 = 1;
pub(super) const FACTS: u64 = 2;

/// What the logs of a directory are found to be. All batches in them are whole.
pub(super) struct Logs {
    /// What is in them, unless they are several or a long one.
    pub(super) short: Option<ShortLog>,
    /// What was cut off the newest, if something may be missing with it.
    pub(super) torn: Option<TornTail>,
    /// The value of the marker in the last batch that has one.
    pub(super) marked: Option<Vec<u8>>,
}

/// A log of no more than [`REPLAYED_BYTES`], as it was read; or none at all.
pub(super) struct ShortLog {
    pub(super) path: Option<PathBuf>,
    pub(super) batches: Vec<LogBatch>,
}

impl ShortLog {
    /// When it returns, all of it survives the loss of power, also what a killed process did not come to sync.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        File::open(path).and_then(|log| log.sync_all()).map_err(|e| Error::io(path, e))
    }
}

/// Writes that have happened together.
pub(super) struct LogBatch {
    pub(super) sequence: u64,
    pub(super) writes: Vec<LogWrite>,
}

/// A write as the log has it.
pub(super) struct LogWrite {
    pub(super) keyspace: u64,
    pub(super) key: Vec<u8>,
    /// `None` if the key was removed.
    pub(super) value: Option<Vec<u8>>,
}

/// A tail that was cut off, until it is known that nothing is missing now.
pub(super) struct TornTail {
    log: PathBuf,
    /// The log as it was found. fjall does not look at files of this extension.
    found: PathBuf,
}

impl Logs {
    /// Cuts what is not a whole batch off the newest log in `directory`, if there is anything such. `complete` is told the
    /// value of the fact `marker` in the last whole batch that has one: if it finds nothing missing, neither does
    /// anybody who looks later, and nothing is kept of the tail. A full disk has no room for it.
    pub(super) fn look(
        directory: &Path,
        marker: &str,
        complete: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Self, Error> {
        let mut logs = logs(directory).map_err(|e| Error::io(directory, e))?;
        let Some(newest) = logs.pop() else {
            let none = ShortLog { path: None, batches: Vec::new() };
            return Ok(Self { short: Some(none), torn: None, marked: None });
        };
        let is_only = logs.is_empty();
        let torn = TornTail { found: newest.with_extension("found"), log: newest };
        if torn.found.exists() {
            // An earlier attempt was cut short before its verdict.
            torn.put_back()?;
        }
        let mut marked = None;
        for log in logs {
            let extent = Extent::of(&log, marker).map_err(|e| Error::io(&log, e))?;
            if extent.whole_batches < extent.written {
                // It was synced before the next one was begun.
                let what = format!("the engine's log is damaged at byte {}", extent.whole_batches);
                return Err(Error::Corrupt { path: log, what });
            }
            marked = extent.marked.or(marked);
        }
        let extent = Extent::of(&torn.log, marker).map_err(|e| Error::io(&torn.log, e))?;
        let batches = extent.batches.filter(|_| is_only);
        let short = batches.map(|batches| ShortLog { path: Some(torn.log.clone()), batches });
        let marked = extent.marked.or(marked);
        if extent.whole_batches == extent.written {
            return Ok(Self { short, torn: None, marked });
        }
        let is_complete = marked.as_ref().is_some_and(|value| complete(value));
        if !is_complete {
            torn.keep(extent.written).map_err(|e| Error::io(&torn.log, e))?;
        }
        torn.cut_at(extent.whole_batches).map_err(|e| Error::io(&torn.log, e))?;
        Ok(Self { short, torn: (!is_complete).then_some(torn), marked })
    }
}

impl TornTail {
    /// Copies the log, whose first `written` bytes are not reserved space only.
    fn keep(&self, written: u64) -> io::Result<()> {
        let length = self.log.metadata()?.len();
        copy(&self.log, 0..written, length, &self.found)
    }

    fn cut_at(&self, length: u64) -> io::Result<()> {
        let log = OpenOptions::new().write(true).open(&self.log)?;
        log.set_len(length)?;
        log.sync_all()
    }

    /// Nothing was lost with the tail. Synced, or a power cut could bring the log back as it was found, and the next
    /// attempt would put it in the place of one with more commits.
    pub(super) fn forget(&self) -> Result<(), Error> {
        let forget = || {
            fs::remove_file(&self.found)?;
            sync_directory_of(&self.found)
        };
        forget().map_err(|e| Error::io(&self.found, e))
    }

    /// The tail held something that must not be lost: leaves the log as it was found.
    pub(super) fn put_back(&self) -> Result<(), Error> {
        let put_back = || {
            fs::rename(&self.found, &self.log)?;
            sync_directory_of(&self.log)
        };
        put_back().map_err(|e| Error::io(&self.log, e))
    }
}

/// The log that is written to.
pub(super) struct Log {
    directory: PathBuf,
    pub(super) open: Mutex<OpenLogs>,
    /// Which file is cut when it is closed, and where, bytes from its start.
    cut: Mutex<Option<(PathBuf, u64)>>,
}

/// Open since before anything was written to them: a system may tell of a failed write who had the file open then, and nobody
/// else.
pub(super) struct OpenLogs {
    /// The newest; and before it the one that was, until something is in the newest. None after a failed sync.
    pub(super) files: Vec<File>,
    /// The number of the newest.
    newest: u64,
}

impl Log {
    pub(super) fn newest(directory: &Path) -> io::Result<Self> {
        let (newest, path) = numbered_logs(directory)?.pop().ok_or(io::ErrorKind::NotFound)?;
        let open = OpenLogs { files: vec![File::open(path)?], newest };
        Ok(Self { directory: directory.into(), open: Mutex::new(open), cut: Mutex::default() })
    }

    fn path(&self) -> Option<PathBuf> {
        logs(&self.directory).ok()?.pop()
    }

    /// How long it is.
    pub(super) fn bytes(&self) -> u64 {
        self.open.lock().files.last().and_then(|log| log.metadata().ok()).map_or(0, |log| log.len())
    }

    /// When it returns, all batches that were written before survive the loss of power. After an error none is synced any more.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut open = self.open.lock();
        let synced = open.sync(&self.directory);
        if synced.is_err() {
            open.files.clear();
        }
        synced
    }

    /// Whether all batches could be written.
    pub(super) fn is_whole(&self) -> bool {
        self.cut.lock().is_none()
    }

    /// A batch could not be written: nothing of it stays when the log is closed. fjall writes the rest by then, if there is room,
    /// and what was refused would be there; it may have begun another log, too.
    pub(super) fn end_with_what_is_whole(&self) {
        let mut cut = self.cut.lock();
        if cut.is_none() {
            let whole = |log: PathBuf| Extent::of(&log, "").ok().map(|extent| (log, extent.whole_batches));
            *cut = self.path().and_then(whole);
        }
    }

    /// All that is in it is in tables, and nothing more is written.
    pub(super) fn empty_when_closed(&mut self) {
        *self.cut.get_mut() = self.path().map(|log| (log, 0));
    }
}

impl OpenLogs {
    fn sync(&mut self, directory: &Path) -> io::Result<()> {
        if self.files.is_empty() {
            return Err(io::Error::other("an earlier sync failed"));
        }
        loop {
            match File::open(directory.join(format!("{}.jnl", self.newest + 1))) {
                Ok(next) => self.files.push(next),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
            self.newest += 1;
        }
        for log in &self.files {
            log.sync_data()?;
        }
        // fjall has made the next log before it knows that it can begin it. Once it has, it writes to no other.
        let is_begun = |log: &File| {
            let mut first = [0];
            log.read_exact_at(&mut first, 0).is_ok() && first == [START]
        };
        let current = self.files.iter().rposition(is_begun).unwrap_or(0);
        self.files.drain(..current);
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some((log, end)) = self.cut.get_mut().take() {
            let cut = OpenOptions::new().write(true).open(log).and_then(|log| {
                log.set_len(end)?;
                log.sync_all()
            });
            // What stays in it is passed over when it is replayed.
            drop(cut);
        }
    }
}

/// Writes the newest log in `directory`, which is whole, anew if it is not `is_synced`: a sync that succeeds says nothing of
/// what an earlier one, of this process or of another, has failed to write. What is in tables, all batches up to the sequence
/// number `in_tables`, is left out, also of a long log that is synced: fjall reads that too, and slowly. Where there are older logs,
/// nothing is: what they hold may be overwritten by what is in tables only.
pub(super) fn renew(directory: &Path, in_tables: Option<u64>, is_synced: bool) -> io::Result<()> {
    let mut logs = logs(directory)?;
    let Some(log) = logs.pop() else { return Ok(()) };
    let mut reader = LogReader::of(&log, &[])?;
    reader.writes = None;
    let (length, mut start) = (reader.left, 0);
    if let Some(in_tables) = in_tables.filter(|_| logs.is_empty()) {
        while reader.batch()?.is_some_and(|sequence| sequence <= in_tables) {
            start = length - reader.left;
        }
    }
    if is_synced && start <= REPLAYED_BYTES {
        return Ok(());
    }
    let end = end_before_zeros(reader.log.get_ref(), start)?;
    copy(&log, start..end, if start == 0 { length } else { end - start }, &log)
}

/// Makes `to` a file of so many bytes that begins with this part of `log`; what `to` was before it is until then.
fn copy(log: &Path, part: Range<u64>, length: u64, to: &Path) -> io::Result<()> {
    // fjall does not look at files of this extension.
    let name = log.with_extension("copy");
    let copied = File::create(&name).and_then(|mut copy| {
        let mut log = File::open(log)?;
        let found = log.metadata()?.permissions();
        log.seek(io::SeekFrom::Start(part.start))?;
        io::copy(&mut log.take(part.end - part.start), &mut copy)?;
        copy.set_len(length)?;
        copy.set_permissions(found)?;
        copy.sync_all()
    });
    if let Err(error) = copied {
        // It may be what fills the disk. What stays of it is written over next time.
        let _ = fs::remove_file(&name);
        return Err(error);
    }
    fs::rename(&name, to)?;
    sync_directory_of(to)
}

/// The logs in `directory` from the oldest to the newest.
fn logs(directory: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbered_logs(directory)?.into_iter().map(|(_, path)| path).collect())
}

/// The same, with their numbers.
fn numbered_logs(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut logs = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number
            && path.extension().is_some_and(|extension| extension == "jnl")
        {
            logs.push((number, path));
        }
    }
    logs.sort_unstable();
    Ok(logs)
}

/// How far a log is what was written.
struct Extent {
    /// Bytes from its start.
    whole_batches: u64,
    /// Bytes from its start that anything but reserved space, zeros, is in. Not less than `whole_batches`.
    written: u64,
    /// The value of the marker in the last whole batch that has one.
    marked: Option<Vec<u8>>,
    /// The whole batches, if the log has no more than [`REPLAYED_BYTES`] of writes, and only what we write.
    batches: Option<Vec<LogBatch>>,
}

impl Extent {
    fn of(log: &Path, marker: &str) -> io::Result<Self> {
        let mut reader = LogReader::of(log, marker.as_bytes())?;
        let length = reader.left;
        let (mut whole_batches, mut marked, mut last) = (0, None, None);
        let mut batches = Vec::new();
        while let Some(sequence) = reader.batch()?
            && last.is_none_or(|last| last < sequence)
        {
            whole_batches = length - reader.left;
            last = Some(sequence);
            marked = reader.marked.take().or(marked);
            if reader.writes.is_none() {
                batches = Vec::new();
            }
            batches.extend(reader.writes.as_mut().map(|writes| LogBatch { sequence, writes: take(writes) }));
        }
        let written = end_before_zeros(reader.log.get_ref(), whole_batches)?;
        Ok(Self { whole_batches, written, marked, batches: reader.writes.map(|_| batches) })
    }
}

/// Where the file ends without the zeros at its end; not before `from`.
fn end_before_zeros(file: &File, from: u64) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let (mut at, mut end) = (from, from);
    loop {
        // Reserved space is no data, and 64 MB of it would take longer to read than all else that opening does.
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(end),
            Err(error) => return Err(error.into()),
        };
        let data = usize::try_from(seek(file, SeekFrom::Hole(at))? - at).unwrap_or(usize::MAX);
        let most = data.min(buffer.len());
        let n = file.read_at(&mut buffer[..most], at)?;
        if n == 0 {
            return Ok(end);
        }
        if let Some(last) = buffer[..n].iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        at += n as u64;
    }
}

struct LogReader<'m> {
    log: BufReader<File>,
    left: u64,
    /// The name of a fact, and the last value of it in what was read.
    marker: &'m [u8],
    marked: Option<Vec<u8>>,
    /// What was read of a batch; `None` if it is not kept. And how much was kept, bytes.
    writes: Option<Vec<LogWrite>>,
    kept: u64,
}

impl<'m> LogReader<'m> {
    fn of(log: &Path, marker: &'m [u8]) -> io::Result<Self> {
        let file = File::open(log)?;
        let left = file.metadata()?.len();
        let log = BufReader::with_capacity(1 << 16, file);
        Ok(Self { log, left, marker, marked: None, writes: Some(Vec::new()), kept: 0 })
    }

    /// The sequence number of the batch that begins here; `None` if it is not whole.
    fn batch(&mut self) -> io::Result<Option<u64>> {
        let Some([START]) = self.array()? else { return Ok(None) };
        let (Some(count), Some(sequence)) = (self.array()?, self.array()?) else { return Ok(None) };
        let mut checksum = Xxh3::new();
        for _ in 0..u32::from_le_bytes(count) {
            if self.item(&mut checksum)?.is_none() {
                return Ok(None);
            }
        }
        let end = (self.array()?, self.array()?, self.array()?);
        let whole = end == (Some([END]), Some(checksum.digest().to_le_bytes()), Some(MAGIC));
        Ok(whole.then_some(u64::from_le_bytes(sequence)))
    }

    /// Reads an item, adding it to `checksum`.
    fn item(&mut self, checksum: &mut Xxh3) -> io::Result<Option<()>> {
        // Tag, kind, compression, keyspace; lengths of key, value, and value as stored.
        let Some(head) = self.array::<21>()? else { return Ok(None) };
        let [ITEM, kind, compression, e0, e1, e2, e3, e4, e5, e6, e7, k0, k1, _, _, _, _, v0, v1, v2, v3] =
            head
        else {
            return Ok(None);
        };
        checksum.update(&head);
        let keyspace = u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7]);
        let key = u64::from(u16::from_le_bytes([k0, k1]));
        let length = key + u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
        let Some(left) = self.left.checked_sub(length) else { return Ok(None) };
        self.left = left;
        let is_ours = [VALUE, TOMBSTONE].contains(&kind) && compression == NOT_COMPRESSED;
        self.kept += length;
        if self.kept > REPLAYED_BYTES || !is_ours {
            self.writes = None;
        }
        let may_be_marker = keyspace == FACTS && key == self.marker.len() as u64;
        if may_be_marker || self.writes.is_some() {
            let (mut key, mut value) = (vec![0; usize::from(u16::from_le_bytes([k0, k1]))], Vec::new());
            self.log.read_exact(&mut key)?;
            Read::by_ref(&mut self.log).take(length - key.len() as u64).read_to_end(&mut value)?;
            checksum.update(&key);
            checksum.update(&value);
            if may_be_marker && key == self.marker {
                self.marked = Some(value.clone());
            }
            if let Some(writes) = &mut self.writes {
                writes.push(LogWrite { keyspace, key, value: (kind == VALUE).then_some(value) });
            }
            return Ok(Some(()));
        }
        let mut rest = length;
        let mut buffer = [0; 4096];
        while rest > 0 {
            let piece = usize::try_from(rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
            self.log.read_exact(&mut buffer[..piece])?;
            checksum.update(&buffer[..piece]);
            rest -= piece as u64;
        }
        Ok(Some(()))
    }

    /// The next bytes; `None` if the log ends before.
    fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let Some(left) = self.left.checked_sub(N as u64) else { return Ok(None) };
        self.left = left;
        let mut bytes = [0; N];
        self.log.read_exact(&mut bytes)?;
        Ok(Some(bytes))
    }
}

fn sync_directory_of(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), super::sync_directory)
}
