//! A replica's records on disk.
//!
//! ```text
//! file    "fulmarJ1" batch*
//! batch   length:u32 number:u64 checksum:u64 (length:varint record)*
//! ```
//!
//! Numbers are little-endian; `length` is that of what follows the checksum, a batch's number is that of the one before it and
//! one, and the checksum is over number and records. A batch is all that is synced at once, and the next is written after
//! that. So what a crash has left of a batch is the end of the file, and is cut off; before a whole batch nothing can be
//! amiss but by damage, and then nothing is taken for granted. Where a checkpoint comes, the file is written anew without
//! what that makes superfluous.

use fulmar_coding::{Reader, put_bytes};
use fulmar_files::write_whole;
use fulmar_replication::{Memory, Record};
use fulmar_transport::{Log, Wire};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"fulmarJ1";
/// Bytes before a batch's records: length, number and checksum.
const HEAD: usize = 4 + 8 + 8;

/// A journal that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system says so.
    #[error("{path}: {why}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What it says.
        why: io::Error,
    },
    /// It is not as it was written.
    #[error(
        "{path}: damaged at byte {at}, before records that are whole; with an empty directory the replica comes back as \
         another incarnation, to which the others give the state"
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where.
        at: usize,
    },
}

/// Where a replica's records go.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// That of the last batch.
    number: u64,
    kept: Memory,
}

impl Journal {
    /// Makes one without records.
    pub(crate) fn create(path: &Path) -> Result<(), JournalError> {
        write_whole(path, MAGIC, 0o666).map(drop).map_err(|why| JournalError::Io { path: path.into(), why })
    }

    /// With the records from which the replica goes on.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Record>), JournalError> {
        let failed = |why| JournalError::Io { path: path.into(), why };
        let damaged = |at| JournalError::Damaged { path: path.into(), at };
        let bytes = fs::read(path).map_err(failed)?;
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else { return Err(damaged(0)) };
        let (mut number, mut kept) = (0, Memory::default());
        while let Some((records, after)) = batch(rest, |found| found == number + 1) {
            let at = bytes.len() - rest.len();
            decode(records).ok_or_else(|| damaged(at))?.iter().for_each(|record| kept.note(record));
            number += 1;
            rest = after;
        }
        let end = bytes.len() - rest.len();
        let is_later = |found| found > number && found - number < bytes.len() as u64;
        if (1..rest.len()).any(|skipped| batch(&rest[skipped..], is_later).is_some()) {
            return Err(damaged(end));
        }
        let file = File::options().append(true).open(path).map_err(failed)?;
        if !rest.is_empty() {
            file.set_len(end as u64).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        let records = kept.records();
        Ok((Self { path: path.into(), file, number, kept }, records))
    }

    fn write(&mut self, records: &[Record]) -> io::Result<()> {
        self.number += 1;
        self.file.write_all(&encode(self.number, records)?)
    }

    /// Begins anew with what is kept.
    fn rewrite(&mut self) -> io::Result<()> {
        self.number = 1;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(encode(self.number, &self.kept.records())?);
        self.file = write_whole(&self.path, &bytes, 0o666)?;
        Ok(())
    }

    /// An error of the system's says in which file.
    fn named<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", self.path.display())))
    }
}

impl Log<Record> for Journal {
    fn append(&mut self, records: &[Record]) -> io::Result<()> {
        records.iter().for_each(|record| self.kept.note(record));
        let is_checkpoint = |record: &Record| matches!(record, Record::Checkpoint(_));
        let written = if records.iter().any(is_checkpoint) { self.rewrite() } else { self.write(records) };
        self.named(written)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.named(self.file.sync_data())
    }
}

fn encode(number: u64, records: &[Record]) -> io::Result<Vec<u8>> {
    let mut checked = number.to_le_bytes().to_vec();
    let mut bytes = Vec::new();
    for record in records {
        bytes.clear();
        record.encode(&mut bytes);
        put_bytes(&mut checked, &bytes);
    }
    let (number, records) = checked.split_at(8);
    let length = u32::try_from(records.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes(), number, &xxh3_64(&checked).to_le_bytes(), records].concat())
}

/// The records at the front of these bytes, and what comes after them, if they are whole and of a number that is expected.
fn batch(bytes: &[u8], is_expected: impl Fn(u64) -> bool) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, head) = head.split_first_chunk()?;
    let (number, checksum) = head.split_first_chunk()?;
    if !is_expected(u64::from_le_bytes(*number)) {
        return None;
    }
    let (records, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let is_whole = xxh3_64(&[number, records].concat()).to_le_bytes() == checksum;
    is_whole.then_some((records, rest))
}

fn decode(batch: &[u8]) -> Option<Vec<Record>> {
    let mut input = Reader::new(batch);
    let mut records = Vec::new();
    while !input.is_empty() {
        records.push(Record::decode(input.bytes()?).ok()?);
    }
    Some(records)
}

#[cfg(test)]
mod tests;
