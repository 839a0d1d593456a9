//! Versions that a snapshot kept readable.

use fulmar_dbt::{Database, Durability, Options, Tree};
use fulmar_kv::{ObjectId, linked};

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
