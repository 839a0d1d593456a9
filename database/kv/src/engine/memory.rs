//! An engine that forgets everything at the end of the process: for replicas without a disk, and for tests.

use super::{Batch, Engine, EngineWrite};
use crate::{Error, ObjectId};
use fulmar_locks::RwLock;
use std::collections::BTreeMap;

/// Entries in ordered maps.
#[derive(Default)]
pub struct Memory(RwLock<Contents>);

#[derive(Default)]
struct Contents {
    entries: BTreeMap<(ObjectId, u64), Vec<u8>>,
    facts: BTreeMap<&'static str, Vec<u8>>,
}

impl Engine for Memory {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut contents = self.0.write();
        for write in batch.writes {
            match write {
                EngineWrite::Put { object, sequence, entry } => {
                    contents.entries.insert((object, sequence), entry);
                }
                EngineWrite::Remove { object, sequence } => {
                    contents.entries.remove(&(object, sequence));
                }
                EngineWrite::Fact { name, value } => {
                    contents.facts.insert(name, value);
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        for ((_, sequence), entry) in self.0.read().entries.range((object, 0)..=(object, u64::MAX)) {
            visit(*sequence, entry);
        }
        Ok(())
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        Ok(self.0.read().entries.range((from, 0)..).next().map(|((object, _), _)| *object))
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.read().facts.get(name).cloned())
    }
}
