//! What a power cut leaves of fjall's log: a batch that was being written may lack any of its pages.
//!
//! fjall ignores a tail that was never written, but refuses to open a log whose last batch has a wrong checksum, and
//! ends a log silently at a damaged marker in its middle. So the log is looked at first. A tail that no sync covered
//! is cut off; everything else is damage, and left as it is.
//!
//! The log is a sequence of batches: a start (tag 1, count of items, sequence number), items (tag 2), an end (tag 3,
//! checksum of the items, magic). Clearing a keyspace (tag 4) does not happen here. Numbers are little-endian.

use crate::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: [u8; 4] = *b"FJL\x03";

/// A tail that was cut off, until it is known that nothing is missing now.
pub(super) struct TornTail {
    log: PathBuf,
    /// The log as it was found. fjall does not look at files of this extension.
    found: PathBuf,
}

impl TornTail {
    /// Cuts what is not a whole batch off the newest log in `directory`, if there is anything such.
    pub(super) fn cut(directory: &Path) -> Result<Option<Self>, Error> {
        let mut logs = logs(directory).map_err(|e| Error::io(directory, e))?;
        let Some(newest) = logs.pop() else { return Ok(None) };
        let torn = Self { found: newest.with_extension("found"), log: newest };
        if torn.found.exists() {
            // An earlier attempt was cut short before its verdict.
            torn.put_back()?;
        }
        for log in logs {
            let extent = Extent::of(&log).map_err(|e| Error::io(&log, e))?;
            if extent.has_rest {
                // It was synced before the next one was begun.
                let what = format!("the engine's log is damaged at byte {}", extent.whole_batches);
                return Err(Error::Corrupt { path: log, what });
            }
        }
        let extent = Extent::of(&torn.log).map_err(|e| Error::io(&torn.log, e))?;
        if !extent.has_rest {
            return Ok(None);
        }
        torn.cut_at(extent.whole_batches).map_err(|e| Error::io(&torn.log, e))?;
        Ok(Some(torn))
    }

    fn cut_at(&self, length: u64) -> io::Result<()> {
        // The copy gets its name when it is whole.
        let copy = self.log.with_extension("copy");
        fs::copy(&self.log, &copy)?;
        File::open(&copy)?.sync_all()?;
        fs::rename(&copy, &self.found)?;
        sync_directory_of(&self.log)?;
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

/// The logs in `directory` from the oldest to the newest.
fn logs(directory: &Path) -> io::Result<Vec<PathBuf>> {
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
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

/// How far a log is what was written.
#[derive(Debug, PartialEq, Eq)]
struct Extent {
    /// Bytes from its start.
    whole_batches: u64,
    /// Whether anything but reserved space, zeros, follows.
    has_rest: bool,
}

impl Extent {
    fn of(log: &Path) -> io::Result<Self> {
        let file = File::open(log)?;
        let length = file.metadata()?.len();
        let mut reader = LogReader { log: BufReader::with_capacity(1 << 16, file), left: length };
        let mut whole_batches = 0;
        let mut last = None;
        while let Some(sequence) = reader.batch()?
            && last.is_none_or(|last| last < sequence)
        {
            whole_batches = length - reader.left;
            last = Some(sequence);
        }
        let mut rest = File::open(log)?;
        io::Seek::seek(&mut rest, io::SeekFrom::Start(whole_batches))?;
        Ok(Self { whole_batches, has_rest: !only_zeros(rest)? })
    }
}

fn only_zeros(mut file: File) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            n if buffer[..n].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

struct LogReader {
    log: BufReader<File>,
    left: u64,
}

impl LogReader {
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

    /// Skips an item, adding it to `checksum`.
    fn item(&mut self, checksum: &mut Xxh3) -> io::Result<Option<()>> {
        // Tag, kind, compression, keyspace; lengths of key, value, and value as stored.
        let Some(head) = self.array::<21>()? else { return Ok(None) };
        let [ITEM, _, _, _, _, _, _, _, _, _, _, k0, k1, _, _, _, _, v0, v1, v2, v3] = head else {
            return Ok(None);
        };
        checksum.update(&head);
        let length =
            u64::from(u16::from_le_bytes([k0, k1])) + u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
        let Some(left) = self.left.checked_sub(length) else { return Ok(None) };
        self.left = left;
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
