//! What opening a database does to its files.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_kv::{Change, Commit, Database, Durability, ObjectId, Options, Restructuring, Write};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const OBJECT: ObjectId = ObjectId(7);

fn open(path: &Path) -> Database {
    Database::open(path, &Options::default()).unwrap()
}

fn commit(database: &Database, key: &[u8], durability: Durability) {
    let is_first = database.read(OBJECT).unwrap().is_none();
    let restructurings = is_first.then_some(Restructuring::Create { object: OBJECT }).into_iter().collect();
    let change = Change { key: key.into(), value: Some(b"value"[..].into()) };
    let commit = Commit {
        snapshot: database.newest(),
        restructurings,
        writes: vec![Write { object: OBJECT, cleared: vec![], changes: vec![change].into() }],
        ..Commit::default()
    };
    database.commit(commit, durability).unwrap();
}

fn count(database: &Database) -> usize {
    database.read(OBJECT).unwrap().unwrap().count(database.newest())
}

/// When each file and folder was last changed, but for the lock, in which it stands who has it.
fn changes(path: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut changes = BTreeMap::new();
    let mut found = vec![path.to_owned()];
    while let Some(path) = found.pop() {
        let metadata = path.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        changes.insert(path, metadata.modified().unwrap());
    }
    changes.remove(&path.join("LOCK"));
    changes
}

/// The last commit of which the database notes that it was synced.
fn noted(path: &Path) -> u64 {
    let note = fs::read(path.join("SYNCED")).unwrap();
    note.first_chunk().map_or(0, |number| u64::from_be_bytes(*number))
}

#[test]
fn who_opens_reads_and_closes_changes_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    commit(&first, b"key", Durability::Synced);
    drop(first);
    let before = changes(directory.path());
    let database = open(directory.path());
    let snapshot = database.open_snapshot();
    assert_eq!(count(&database), 1);
    database.close_snapshot(snapshot);
    drop(database);
    assert_eq!(changes(directory.path()), before);
}

/// Who is shown a commit that a killed process did not sync may tell others of it.
#[test]
fn a_commit_that_was_not_synced_is_when_the_database_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let first = open(path);
    commit(&first, b"synced", Durability::Synced);
    let synced = noted(path);
    commit(&first, b"written", Durability::Written);
    drop(first);
    assert_eq!(noted(path), synced);
    assert_eq!(count(&open(path)), 2);
    assert!(noted(path) > synced);
    let before = changes(path);
    assert_eq!(count(&open(path)), 2);
    assert_eq!(changes(path), before, "it is noted, and not synced again");
}
