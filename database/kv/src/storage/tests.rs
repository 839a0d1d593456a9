use super::Storage;
use crate::engine::{Batch, Engine, Memory};
use crate::{Error, GroupId, ObjectId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A disk that loses what is not synced.
#[derive(Clone, Default)]
struct Disk {
    synced: Arc<Mutex<Vec<Batch>>>,
    written: Arc<Mutex<Vec<Batch>>>,
}

struct OnDisk(Memory, Disk);

impl Disk {
    fn open(&self) -> Storage {
        self.written.lock().clear();
        let memory = Memory::default();
        self.synced.lock().iter().for_each(|batch| memory.write(batch.clone()).expect("memory"));
        let engine = Box::new(OnDisk(memory, self.clone()));
        Storage::on(engine, Path::new("lossy"), 1 << 20, None, GroupId(0)).expect("memory")
    }
}

impl Engine for OnDisk {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.1.written.lock().push(batch.clone());
        self.0.write(batch)
    }
    fn sync(&self) -> Result<(), Error> {
        self.1.synced.lock().append(&mut self.1.written.lock());
        Ok(())
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

#[test]
fn names_that_were_lost_are_not_given_again() {
    let disk = Disk::default();
    let mut given = BTreeSet::new();
    for _ in 0..3 {
        let storage = disk.open();
        storage.skip_lost_names().expect("memory");
        // Each is the name of an object that is seen, and lost before it is synced.
        assert!((0..10).all(|_| given.insert(storage.fresh())));
    }
}
