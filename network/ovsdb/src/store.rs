//! A database that outlives the process.

use crate::journal::Journal;
use crate::log::{Log, LogError};
use crate::{Changes, Database, Error, Schema, Tag, record};
use fulmar_node::Random;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its file cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What is in it is not of this schema.
    #[error("{path}: {why}")]
    Records {
        /// Which file.
        path: PathBuf,
        /// What is in the way, and where.
        why: Error,
    },
}

/// A database, and where it is kept. What is committed is on the disk before anybody is told.
pub struct Store {
    database: Database,
    /// Nothing, if it is to be gone with the process.
    journal: Option<Box<dyn Journal>>,
    /// Set by the first failure of the disk, after which nobody knows what is on it. Nothing is committed any more.
    failed: Option<Error>,
}

impl Store {
    /// One that is gone with the process.
    #[must_use]
    pub fn in_memory(schema: Schema) -> Self {
        Self { database: Database::new(schema.into()), journal: None, failed: None }
    }

    /// The one in this file, which is made if there is none. The file may have been written with another version of the schema, if all
    /// that it holds has a place in this one.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(path: &Path, schema: Schema, chance: &mut Random) -> Result<Self, OpenError> {
        let (log, records) = Log::open(path)?;
        let replayed = Self::replayed(schema, &records, Box::new(log), chance);
        replayed.map_err(|why| OpenError::Records { path: path.into(), why })
    }

    /// What these records come to, which are those of the journal.
    ///
    /// # Errors
    /// [`Error`], if they are not of this schema, or the journal fails.
    pub fn replayed(
        schema: Schema,
        records: &[Vec<u8>],
        mut journal: Box<dyn Journal>,
        chance: &mut Random,
    ) -> Result<Self, Error> {
        let database = record::replay(&Arc::new(schema), records.iter().map(Vec::as_slice), chance)?;
        if records.is_empty() || journal.is_long() {
            journal.restart(snapshot(&database).as_bytes()).map_err(|why| disk_error(&why))?;
        }
        Ok(Self { database, journal: Some(journal), failed: None })
    }

    #[cfg(test)]
    pub(crate) const fn plant(&mut self, defect: Option<crate::database::Defect>) {
        self.database.defect = defect;
    }

    /// What is committed.
    #[must_use]
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// Keeps the changes, which were worked out from the database as it is, and makes them.
    ///
    /// # Errors
    /// [`Error`]: the disk fails, or has failed before. Then nothing is changed here; what a file holds is known when it is opened again.
    pub(crate) fn commit(&mut self, changes: &Changes) -> Result<(), Error> {
        if let Some(journal) = &mut self.journal
            && let Some(record) = record::of_changes(changes)
        {
            if let Some(why) = &self.failed {
                return Err(why.clone().within("the disk has failed before, and what is on it is not known"));
            }
            let written = journal.append(record.to_string().as_bytes());
            written.map_err(|why| self.failed.insert(disk_error(&why)).clone())?;
        }
        self.database.apply(changes);
        self.shorten();
        Ok(())
    }

    /// Has the journal forget what is superfluous. That this fails is told to the next who commits.
    fn shorten(&mut self) {
        if let Some(journal) =
            self.journal.as_mut().filter(|journal| journal.is_long() && self.failed.is_none())
        {
            let restarted = journal.restart(snapshot(&self.database).as_bytes());
            self.failed = restarted.err().map(|why| disk_error(&why));
        }
    }
}

fn snapshot(database: &Database) -> String {
    record::of_database(database).to_string()
}

/// As section 4.1.3 of RFC 7047 tells them apart.
fn disk_error(why: &io::Error) -> Error {
    let is_full = matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    Error::new(if is_full { Tag::ResourcesExhausted } else { Tag::IoError }, why.to_string())
}
