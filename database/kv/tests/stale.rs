//! Objects that are worth a rewrite.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_kv::{Change, Commit, Database, Durability, ObjectId, Options, Restructuring, Write};

const OBJECT: ObjectId = ObjectId(7);

fn commit(database: &Database, restructurings: Vec<Restructuring>, writes: Vec<Write>) {
    let commit = Commit { snapshot: database.newest(), restructurings, writes, ..Commit::default() };
    database.commit(commit, Durability::Written).unwrap();
}

fn write(n: u8) -> Write {
    let change = Change { key: (*b"key").into(), value: Some([n; 1000].into()) };
    Write { object: OBJECT, cleared: vec![], changes: vec![change].into() }
}

#[test]
fn an_object_that_changes_often_under_an_old_snapshot_is_rewritten_once() {
    let database = Database::transient(&Options::default()).unwrap();
    commit(&database, vec![Restructuring::Create { object: OBJECT }], vec![]);
    let snapshot = database.open_snapshot();
    for n in 0..200 {
        commit(&database, vec![], vec![write(n)]);
    }
    assert!(database.read(OBJECT).unwrap().unwrap().stale() > 190_000);
    assert_eq!(database.stale(100), []);
    database.close_snapshot(snapshot);
    assert_eq!(database.stale(100), [OBJECT]);
    assert_eq!(database.stale(100), []);
    commit(&database, vec![Restructuring::Collect { object: OBJECT }], vec![]);
    let object = database.read(OBJECT).unwrap().unwrap();
    assert_eq!((object.stale(), object.slots()), (0, 1));
    assert_eq!(object.get(b"key", database.newest()), Some(&[199; 1000][..]));
}
