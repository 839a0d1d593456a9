//! An engine that panics.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_kv::engine::{Batch, Engine, Memory};
use fulmar_kv::{Commit, Database, Durability, Error, ObjectId, Options, Restructuring};
use std::path::Path;

struct Panicking(Memory);

impl Engine for Panicking {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        assert!(batch.writes.len() < 3, "more than it can bear");
        self.0.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        self.0.sync()
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.0.load(object, visit)
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.0.next(from)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.fact(name)
    }
}

/// Nobody waits for a leader that is gone, and nothing is committed on top of what it left undone.
#[test]
fn who_commits_after_a_panic_gets_an_error() {
    let engine = Box::new(Panicking(Memory::default()));
    let database = Database::with_engine(Path::new("test"), engine, &Options::default()).unwrap();
    let create = |objects: std::ops::Range<u64>| {
        let restructurings = objects.map(|n| Restructuring::Create { object: ObjectId(n) }).collect();
        database.commit(Commit { restructurings, ..Commit::default() }, Durability::Synced)
    };
    create(0..1).unwrap();
    assert!(create(1..5).is_err());
    assert!(create(5..6).is_err());
    assert!(database.read(ObjectId(0)).unwrap().is_some());
    assert!(database.read(ObjectId(5)).unwrap().is_none());
}
