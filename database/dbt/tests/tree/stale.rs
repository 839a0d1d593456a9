//! Versions that a snapshot kept readable.

use fulmar_dbt::{Cursor, Database, Durability, Error, Options, Tree};
use fulmar_kv::engine::{Batch, Engine, Memory};
use fulmar_kv::{Object, ObjectId, linked};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const TREE: Tree = Tree(1);

/// A database in memory, and what is below its trees.
fn transient() -> (Database, fulmar_kv::Database) {
    let kv = fulmar_kv::Database::transient(&Options::default()).unwrap();
    (Database::on(kv.clone()).unwrap(), kv)
}

fn write(database: &Database, keys: u64) {
    let mut transaction = database.begin().unwrap();
    for key in 0..keys {
        transaction.put(TREE, &key.to_be_bytes(), &[0; 100]).unwrap();
    }
    transaction.commit(Durability::Written).unwrap();
}

/// The nodes of the tree.
fn nodes(kv: &fulmar_kv::Database) -> Vec<Arc<Object>> {
    let (mut below, mut nodes) = (vec![TREE.root()], Vec::new());
    while let Some(id) = below.pop() {
        let node = kv.read(id).unwrap().unwrap();
        let links = (0..node.slots()).filter(|_| node.level() > 0);
        below.extend(links.filter_map(|slot| linked(node.value(slot))));
        nodes.push(node);
    }
    nodes
}

/// How many bytes of the tree are versions that are not the newest.
fn stale(kv: &fulmar_kv::Database) -> usize {
    nodes(kv).iter().map(|node| node.stale()).sum()
}

/// Deletes keys in a transaction of their own.
fn delete(database: &Database, keys: impl IntoIterator<Item = u64>) {
    let mut transaction = database.begin().unwrap();
    keys.into_iter().for_each(|key| transaction.delete(TREE, &key.to_be_bytes()).unwrap());
    transaction.commit(Durability::Written).unwrap();
}

/// The tree is sound, and has these keys.
fn check(database: &Database, keys: impl IntoIterator<Item = u64>) {
    let reader = database.begin().unwrap();
    assert_eq!(reader.check(TREE).unwrap(), [""; 0]);
    let mut cursor = Cursor::new(TREE);
    let mut more = cursor.first(&reader).unwrap();
    for key in keys {
        assert!(more && cursor.key() == key.to_be_bytes(), "{key} is missing");
        more = cursor.next(&reader).unwrap();
    }
    assert!(!more, "{:?} is there", cursor.key());
}

/// Each row has been changed once: half of all was stale, and stayed.
#[test]
fn what_a_snapshot_kept_is_gone_soon_after_it() {
    let (database, kv) = transient();
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

/// Empty leaves stayed for ever: whoever looked for the oldest row read them all.
#[test]
fn a_queue_takes_no_more_room_than_its_rows() {
    let (database, kv) = transient();
    write(&database, 20);
    for oldest in 0..5000u64 {
        let mut transaction = database.begin().unwrap();
        transaction.put(TREE, &(oldest + 20).to_be_bytes(), &[0; 500]).unwrap();
        transaction.commit(Durability::Written).unwrap();
        delete(&database, [oldest]);
        let count = nodes(&kv).len();
        assert!(count <= 8, "{count} nodes after {oldest} rows");
    }
    check(&database, 5000..5020);
}

/// An empty leaf beside a full one stayed, and so did each of many that became empty together: when one was looked at, its
/// neighbour was full of what was deleted.
#[test]
fn an_empty_tree_is_one_node() {
    let (database, kv) = transient();
    write(&database, 100_000);
    assert!(nodes(&kv).iter().any(|node| node.level() == 2), "{} nodes", nodes(&kv).len());
    delete(&database, 0..100_000);
    database.clean_up();
    check(&database, []);
    assert_eq!(nodes(&kv).len(), 1);
}

#[test]
fn empty_leaves_go_into_full_ones() {
    let (database, kv) = transient();
    write(&database, 20_000);
    let full = nodes(&kv).len();
    // In one of two parts, each several leaves wide.
    let is_left = |key: &u64| (key / 500).is_multiple_of(2);
    delete(&database, (0..20_000).filter(|key| !is_left(key)));
    database.clean_up();
    let left = nodes(&kv).len();
    assert!(left <= full / 2 + 20, "{left} of {full} nodes are left");
    check(&database, (0..20_000).filter(is_left));
}

/// Each row's deletion alone is too little to rewrite a leaf for.
#[test]
fn leaves_that_are_thinned_out_row_by_row_are_joined() {
    let (database, kv) = transient();
    write(&database, 5000);
    let full = nodes(&kv).len();
    (0..5000).filter(|key| key % 16 != 0).for_each(|key| delete(&database, [key]));
    let left = nodes(&kv).len();
    assert!(left <= full / 4, "{left} of {full} nodes are left");
    check(&database, (0..5000).step_by(16));
}

/// What is stale is known in memory only.
#[test]
fn empty_leaves_that_a_restart_has_forgotten_go_when_they_are_read() {
    let engine = Compacted::default();
    let open = || {
        let kv = fulmar_kv::Database::with_engine(
            Path::new("test"),
            Box::new(engine.clone()),
            &Options::default(),
        );
        let kv = kv.unwrap();
        (Database::on(kv.clone()).unwrap(), kv)
    };
    let (database, kv) = open();
    write(&database, 5000);
    // Until the end.
    let reader = database.begin().unwrap();
    reader.get(TREE, b"").unwrap();
    delete(&database, 0..5000);
    assert!(nodes(&kv).len() > 50, "{} nodes", nodes(&kv).len());
    drop((reader, database, kv));
    let (database, kv) = open();
    check(&database, []);
    database.clean_up();
    assert_eq!(nodes(&kv).len(), 1);
}

/// An engine that adds up how much it is told to give back, bytes.
#[derive(Clone, Default)]
struct Compacted {
    memory: Arc<Memory>,
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
