//! The file of a database: a [`RecordLog`] that one process has, in which each record is synced before the next is written.

use crate::journal::Journal;
use fulmar_files::{FileLock, RecordFormat, RecordLog, RecordLogError, lock_file};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

const FORMAT: RecordFormat = RecordFormat { magic: *b"fulmarD1", covers_length: true };
/// As Open vSwitch's: options of tunnels may be secrets, and whoever may read the lock may hold it.
const MODE: u32 = 0o660;
/// What is shorter is not worth being written anew.
const SHORT: u64 = 64 << 10;
/// So many times larger than what it holds it is long.
const LONG: u64 = 4;

/// A file that cannot be read, or written to.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system says so.
    #[error("{path}: {why}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What it says.
        why: io::Error,
    },
    /// Another process has it.
    #[error("{0}: in use by another process")]
    InUse(PathBuf),
    /// It is not as it was written.
    #[error(
        "{path}: damaged at byte {at}, before records that are whole; to go on without these, keep a copy and cut the \
         file off there, or begin with another file"
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where.
        at: usize,
    },
}

/// The file, which no other process writes to while this is there.
#[derive(Debug)]
pub(crate) struct Log {
    records: RecordLog,
    /// Bytes that it had when it was last begun anew.
    begun: u64,
    /// Held for as long as this is.
    _lock: FileLock,
}

impl Log {
    /// The file, which is made if there is none, and the records that it holds.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Vec<u8>>), LogError> {
        let failed = |why| LogError::Io { path: path.into(), why };
        let lock = lock_file(&beside(path, ".lock"), MODE).map_err(failed)?;
        let lock = lock.ok_or_else(|| LogError::InUse(path.into()))?;
        if !path.try_exists().map_err(failed)? {
            RecordLog::create(path, FORMAT, MODE).map_err(failed)?;
        }
        let (log, records) = RecordLog::open(path, &[FORMAT], MODE).map_err(|why| match why {
            RecordLogError::Io(why) => failed(why),
            RecordLogError::Damaged(at) => LogError::Damaged { path: path.into(), at },
        })?;
        Ok((Self { begun: log.length(), records: log, _lock: lock }, records))
    }
}

impl Journal for Log {
    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        self.records.append(record)?;
        self.records.sync()
    }

    fn is_long(&self) -> bool {
        self.records.length() > LONG * self.begun.max(SHORT)
    }

    fn restart(&mut self, snapshot: &[u8]) -> io::Result<()> {
        self.records.restart(snapshot)?;
        self.begun = self.records.length();
        Ok(())
    }
}

/// The path with more at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests;
