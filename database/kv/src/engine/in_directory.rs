//! An engine in a directory of its own, for whoever counts what is written to it.

use super::{Batch, Engine, Fjall};
use crate::directory::DatabaseDirectory;
use crate::{Error, ObjectId, Options};
use std::path::Path;
use std::sync::Arc;

struct InDirectory {
    engine: Fjall,
    counter: &'static str,
    /// Unlocks the directory, after the engine has let go of it.
    directory: DatabaseDirectory,
}

/// An engine in the directory `path`, made if it is not there. Each batch that is written to it says by the fact `counter`, eight bytes with the
/// most significant first, how many were: an engine that has lost some that were synced is not opened.
///
/// # Errors
/// As [`Database::open`](crate::Database::open).
pub fn open_engine(path: &Path, options: &Options, counter: &'static str) -> Result<Arc<dyn Engine>, Error> {
    let directory = DatabaseDirectory::enter(path, true, None)?;
    let complete = |value: Option<&[u8]>| directory.require_synced(count(value), "write");
    let engine = Fjall::open(&directory.engine(), options.cache_bytes / 8, counter, complete)?;
    let engine = engine.limited(options.write_limit.clone());
    directory.finish()?;
    Ok(Arc::new(InDirectory { engine, counter, directory }))
}

fn count(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_be_bytes)
}

impl Engine for InDirectory {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.engine.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        let written = count(self.engine.fact(self.counter)?.as_deref());
        self.engine.sync()?;
        self.directory.note_synced(written)
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.engine.load(object, visit)
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.engine.next(from)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.engine.fact(name)
    }

    fn bytes(&self) -> u64 {
        self.directory.bytes()
    }
}
