//! Versions that a snapshot kept readable.

use fulmar_dbt::{Database, Durability, Error, Options, Tree};
use fulmar_kv::engine::{Batch, Engine, Memory};
use fulmar_kv::{ObjectId, linked};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const TREE: Tree = Tree(1);

fn write(database: &Database, keys: u64) {
    let mut transaction = database.begin().unwrap();
    for key in 0..keys {
        transaction.put(TREE, &key.to_be_bytes(), &[0; 100]).unwrap();
    }
    transaction.commit(Durability::Written).unwrap();
}

/// How many bytes of the tree are versions that are not the newest.
fn stale(kv: &fulmar_kv::Database) -> usize {
    let (mut nodes, mut stale) = (vec![TREE.root()], 0);
    while let Some(id) = nodes.pop() {
        let node = kv.read(id).unwrap().unwrap();
        stale += node.stale();
        let below = (0..node.slots()).filter(|_| node.level() > 0);
        nodes.extend(below.filter_map(|slot| linked(node.value(slot))).collect::<Vec<ObjectId>>());
    }
    stale
}

/// Each row has been changed once: half of all was stale, and stayed.
#[test]
fn what_a_snapshot_kept_is_gone_soon_after_it() {
    let kv = fulmar_kv::Database::transient(&Options::default()).unwrap();
    let database = Database::on(kv.clone()).unwrap();
    write(&database, 2000);
    let reader = database.begin().unwrap();
    reader.get(TREE, b"").unwrap();
    write(&database, 2000);
    let kept = stale(&kv);
    assert!(kept > 200_000, "{kept}");
    drop(reader);
    database.clean_up();
    let left = stale(&kv);
    assert!(left < kept / 20, "{left} of {kept} bytes are left");
}

/// An engine that adds up how much it is told to give back, bytes.
#[derive(Default)]
struct Compacted {
    memory: Memory,
    bytes: Arc<AtomicU64>,
}

impl Engine for Compacted {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.memory.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        self.memory.sync()
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.memory.load(object, visit)
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.memory.next(from)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.memory.fact(name)
    }

    fn compact(&self, replaced: u64) {
        self.bytes.fetch_add(replaced, SeqCst);
    }
}

/// The engine heard of it at the next commit, which may never come.
#[test]
fn the_engine_gives_back_what_a_snapshot_kept_when_it_ends() {
    let engine = Compacted::default();
    let bytes = Arc::clone(&engine.bytes);
    let kv = fulmar_kv::Database::with_engine(Path::new("test"), Box::new(engine), &Options::default());
    let database = Database::on(kv.unwrap()).unwrap();
    write(&database, 100_000);
    let reader = database.begin().unwrap();
    reader.get(TREE, b"").unwrap();
    write(&database, 100_000);
    drop(reader);
    assert_eq!(bytes.load(SeqCst), 0);
    database.clean_up();
    assert!(bytes.load(SeqCst) > 8 << 20);
}
