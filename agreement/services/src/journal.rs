//! A replica's records on disk: a [`RecordLog`] of batches, each of which is `(length:varint record)*`.
//!
//! A batch is all that is synced at once. Where a checkpoint comes, the file is written anew without what that makes superfluous.

use fulmar_coding::{Reader, put_bytes};
use fulmar_files::{RecordFormat, RecordLog, RecordLogError};
use fulmar_replication::{Memory, Record};
use fulmar_transport::{Log, Wire};
use std::io;
use std::path::{Path, PathBuf};

/// How journals begin that are made now, and how they once did.
const FORMATS: [RecordFormat; 2] = [
    RecordFormat { magic: *b"fulmarJ2", covers_length: true },
    RecordFormat { magic: *b"fulmarJ1", covers_length: false },
];
const MODE: u32 = 0o666;

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
    log: RecordLog,
    kept: Memory,
}

impl Journal {
    /// Makes one without records.
    pub(crate) fn create(path: &Path) -> Result<(), JournalError> {
        let failed = |why| JournalError::Io { path: path.into(), why };
        RecordLog::create(path, FORMATS[0], MODE).map_err(failed)
    }

    /// With the records from which the replica goes on.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Record>), JournalError> {
        let damaged = |at| JournalError::Damaged { path: path.into(), at };
        let (log, batches) = RecordLog::open(path, &FORMATS, MODE).map_err(|why| match why {
            RecordLogError::Io(why) => JournalError::Io { path: path.into(), why },
            RecordLogError::Damaged(at) => damaged(at),
        })?;
        let mut kept = Memory::default();
        for batch in batches {
            let records = decode(&batch).ok_or_else(|| damaged(0))?;
            records.iter().for_each(|record| kept.note(record));
        }
        let records = kept.records();
        Ok((Self { path: path.into(), log, kept }, records))
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
        let written = if records.iter().any(is_checkpoint) {
            self.log.restart(&encode(&self.kept.records()))
        } else {
            self.log.append(&encode(records))
        };
        self.named(written)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.named(self.log.sync())
    }
}

fn encode(records: &[Record]) -> Vec<u8> {
    let (mut batch, mut bytes) = (Vec::new(), Vec::new());
    for record in records {
        bytes.clear();
        record.encode(&mut bytes);
        put_bytes(&mut batch, &bytes);
    }
    batch
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
