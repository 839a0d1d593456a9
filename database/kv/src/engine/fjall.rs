//! Entries in fjall, a log-structured merge tree. Why this engine and with these settings: `docs/engines.md`.

use super::{Batch, Engine, EngineWrite};
use crate::{Error, ObjectId};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::io;
use std::path::{Path, PathBuf};

/// A fjall database in a directory of its own.
pub struct Fjall {
    path: PathBuf,
    database: Database,
    entries: Keyspace,
    facts: Keyspace,
}

impl Fjall {
    /// Opens the database in `path`, making it if it does not exist, with at most `cache_bytes` of blocks cached.
    ///
    /// # Errors
    /// [`Error::Io`] if the operating system refuses, [`Error::Corrupt`] if the files are damaged.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let fault = |e| fault(path, e);
        let database = Database::builder(path)
            .cache_size(cache_bytes)
            .worker_threads(1)
            .journal_compression(CompressionType::None)
            .max_journaling_size(128 << 20)
            .open()
            .map_err(fault)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(16 << 20);
        let entries = database.keyspace("entries", options).map_err(fault)?;
        let facts = database.keyspace("facts", options).map_err(fault)?;
        Ok(Self { path: path.into(), database, entries, facts })
    }

    fn fault(&self, error: fjall::Error) -> Error {
        fault(&self.path, error)
    }
}

impl Engine for Fjall {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut atomic = self.database.batch();
        for write in batch.writes {
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
        atomic.durability(Some(PersistMode::Buffer)).commit().map_err(|e| self.fault(e))
    }

    fn sync(&self) -> Result<(), Error> {
        self.database.persist(PersistMode::SyncData).map_err(|e| self.fault(e))
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        for entry in self.entries.prefix(object.0.to_be_bytes()) {
            let (key, value) = entry.into_inner().map_err(|e| self.fault(e))?;
            let sequence = key.last_chunk().map_or(0, |s| u64::from_be_bytes(*s));
            visit(sequence, &value);
        }
        Ok(())
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let value = self.facts.get(name).map_err(|e| self.fault(e))?;
        Ok(value.map(|v| v.to_vec()))
    }
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
            Error::Io { path: path.into(), source }
        }
        fjall::Error::Poisoned => Error::Io {
            path: path.into(),
            source: io::Error::other("an earlier write failed; close the database and open it again"),
        },
        damaged => Error::Corrupt { path: path.into(), what: damaged.to_string() },
    }
}
