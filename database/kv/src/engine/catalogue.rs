//! An engine for databases that are gone with the process: their objects are in memory anyway, so that it keeps no entries,
//! but only which objects there are.

use super::{Batch, Engine, EngineWrite};
use crate::{Error, ObjectId};
use fulmar_locks::RwLock;
use std::collections::{BTreeMap, BTreeSet};

/// The names of objects, and facts.
#[derive(Default)]
pub(crate) struct Catalogue(RwLock<Contents>);

#[derive(Default)]
struct Contents {
    objects: BTreeSet<ObjectId>,
    facts: BTreeMap<&'static str, Vec<u8>>,
}

impl Engine for Catalogue {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut contents = self.0.write();
        for write in batch.writes {
            match write {
                EngineWrite::Put { object, .. } => {
                    contents.objects.insert(object);
                }
                EngineWrite::Remove { object, .. } => {
                    contents.objects.remove(&object);
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

    fn load(&self, _: ObjectId, _: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        Ok(())
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        Ok(self.0.read().objects.range(from..).next().copied())
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.read().facts.get(name).cloned())
    }

    fn keeps_entries(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Commit, Database, Durability, Options, Restructuring, Timestamp, Write};

    fn objects(database: &Database) -> Vec<ObjectId> {
        let next = |from| database.next(from).expect("memory");
        std::iter::successors(next(ObjectId(0)), |last| next(ObjectId(last.0 + 1))).collect()
    }

    /// With a cache for next to nothing, as of a database on a disk.
    #[test]
    fn a_transient_database_keeps_all_its_objects_and_knows_which() {
        let options = Options { cache_bytes: 1, ..Options::default() };
        let database = Database::transient(&options).expect("memory");
        let before = objects(&database);
        let commit = |commit| database.commit(commit, Durability::Written).expect("commits");
        let made: Vec<_> = (0..1000).map(|_| database.fresh()).collect();
        for object in &made {
            let change = Change { key: (*b"key").into(), value: Some(object.0.to_be_bytes().into()) };
            let write = Write { object: *object, cleared: vec![], changes: vec![change].into() };
            commit(Commit {
                restructurings: vec![Restructuring::Create { object: *object }],
                writes: vec![write],
                ..Commit::default()
            });
        }
        let (gone, left) = made.split_at(500);
        for object in gone {
            let restructurings = vec![Restructuring::Remove { object: *object }];
            commit(Commit { restructurings, ..Commit::default() });
        }
        assert_eq!(objects(&database), [&before, left].concat());
        for object in &made {
            let found = database.read(*object).expect("memory");
            let value = found.as_ref().and_then(|object| object.get(b"key", Timestamp(u64::MAX)));
            let expected = object.0.to_be_bytes();
            assert_eq!(value, left.contains(object).then_some(&expected[..]));
        }
    }
}
