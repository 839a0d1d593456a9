//! A file to which records are appended.
//!
//! ```text
//! file    "fulmarD1" record*
//! record  length:u32 number:u64 checksum:u64 bytes
//! ```
//!
//! Numbers are little-endian; `length` is that of the bytes, a record's number is that of the one before it and one, and the
//! checksum is over all the rest of the record. Each record is synced before the next is written. So what a crash has left of a
//! record is the end of the file, and is cut off; before a whole record nothing can be amiss but by damage, and then nothing is
//! taken for granted.

use crate::store::Journal;
use fulmar_files::{lock_file, write_whole};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"fulmarD1";
/// As Open vSwitch's: options of tunnels may be secrets, and whoever may read the lock may hold it.
const MODE: u32 = 0o660;
/// Bytes before those of a record: length, number and checksum.
const HEAD: usize = 4 + 8 + 8;
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
    path: PathBuf,
    file: File,
    /// That of the last record.
    number: u64,
    /// Bytes of the file.
    length: u64,
    /// Bytes that it had when it was last begun anew.
    begun: u64,
    /// Held for as long as this is.
    _lock: File,
}

impl Log {
    /// The file, which is made if there is none, and the records that it holds.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Vec<u8>>), LogError> {
        let failed = |why| LogError::Io { path: path.into(), why };
        let lock = lock_file(&beside(path, ".lock"), MODE).map_err(failed)?;
        let lock = lock.ok_or_else(|| LogError::InUse(path.into()))?;
        if !path.try_exists().map_err(failed)? {
            write_whole(path, MAGIC, MODE).map_err(failed)?;
        }
        let bytes = fs::read(path).map_err(failed)?;
        let (records, end) = read(&bytes).map_err(|at| LogError::Damaged { path: path.into(), at })?;
        let file = File::options().append(true).open(path).map_err(failed)?;
        if end < bytes.len() {
            file.set_len(end as u64).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        let (number, length) = (records.len() as u64, end as u64);
        let records = records.into_iter().map(Into::into).collect();
        Ok((Self { path: path.into(), file, number, length, begun: length, _lock: lock }, records))
    }
}

impl Journal for Log {
    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let bytes = encode(self.number + 1, record)?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.number += 1;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn is_long(&self) -> bool {
        self.length > LONG * self.begun.max(SHORT)
    }

    fn restart(&mut self, snapshot: &[u8]) -> io::Result<()> {
        let bytes = [MAGIC.as_slice(), &encode(1, snapshot)?].concat();
        self.file = write_whole(&self.path, &bytes, MODE)?;
        self.number = 1;
        self.length = bytes.len() as u64;
        self.begun = self.length;
        Ok(())
    }
}

/// The path with more at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn encode(number: u64, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?.to_le_bytes();
    let number = number.to_le_bytes();
    let checksum = xxh3_64(&[&length, number.as_slice(), bytes].concat()).to_le_bytes();
    Ok([&length, number.as_slice(), &checksum, bytes].concat())
}

/// The records at the front of these bytes and where they end, or where the bytes are damaged.
fn read(bytes: &[u8]) -> Result<(Vec<&[u8]>, usize), usize> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(0_usize)?;
    let mut records = Vec::new();
    while let Some((record, after)) = record(rest, |number| number == records.len() as u64 + 1) {
        records.push(record);
        rest = after;
    }
    let end = bytes.len() - rest.len();
    let last = records.len() as u64;
    let is_later = |number| number > last && number - last < bytes.len() as u64;
    if (1..rest.len()).any(|skipped| record(&rest[skipped..], is_later).is_some()) {
        return Err(end);
    }
    Ok((records, end))
}

/// The record at the front of these bytes, and what comes after it, if it is whole and of a number that is expected.
fn record(bytes: &[u8], is_expected: impl Fn(u64) -> bool) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, head) = head.split_first_chunk::<4>()?;
    let (number, checksum) = head.split_first_chunk()?;
    if !is_expected(u64::from_le_bytes(*number)) {
        return None;
    }
    let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let is_whole = xxh3_64(&[length.as_slice(), number, record].concat()).to_le_bytes() == checksum;
    is_whole.then_some((record, rest))
}

#[cfg(test)]
mod tests;
