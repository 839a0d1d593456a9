//! An engine in a directory of its own, for a replica.

use super::journal;
use crate::engine::{Batch, Engine, Fjall};
use crate::home::Home;
use crate::{Error, ObjectId, Options};
use std::path::Path;
use std::sync::Arc;

struct Housed {
    engine: Fjall,
    /// Unlocks the directory, after the engine has let go of it.
    home: Home,
}

/// What a replica of a group is kept in, in the directory `path`, made if it is not there.
///
/// # Errors
/// As [`Database::open`](crate::Database::open).
pub fn replica_engine(path: &Path, options: &Options) -> Result<Arc<dyn Engine>, Error> {
    let home = Home::enter(path, true, None)?;
    let complete = |value: Option<&[u8]>| home.require_synced(journal::written_in(value), "write");
    let engine = Fjall::open(&home.engine(), options.cache_bytes / 8, journal::WRITTEN, complete)?;
    let engine = engine.limited(options.write_limit.clone());
    home.finish()?;
    Ok(Arc::new(Housed { engine, home }))
}

impl Engine for Housed {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.engine.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        let written = journal::written(&self.engine)?;
        self.engine.sync()?;
        self.home.note_synced(written)
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
        self.home.bytes()
    }
}
