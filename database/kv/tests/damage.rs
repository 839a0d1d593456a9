//! A database whose files were damaged while it was closed.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_kv::{Change, Commit, Database, Durability, Error, ObjectId, Options, Restructuring, Write};
use std::fs;
use std::path::Path;

const OBJECT: ObjectId = ObjectId(7);

fn commits(path: &Path, count: u8) {
    let database = Database::open(path, &Options::default()).unwrap();
    for n in 0..count {
        let restructurings = if n == 0 { vec![Restructuring::Create { object: OBJECT }] } else { vec![] };
        commit(&database, restructurings, &[n], b"value", Durability::Synced);
    }
}

fn commit(
    database: &Database,
    restructurings: Vec<Restructuring>,
    key: &[u8],
    value: &[u8],
    durability: Durability,
) {
    let change = Change { key: key.into(), value: Some(value.into()) };
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

/// Whatever byte of the log is changed: all commits are there, or the database says that it is damaged.
#[test]
fn damage_of_the_log_is_never_silent() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    commits(&sound, 20);
    let log = log_of(&sound);
    let (mut refused, mut whole) = (0, 0);
    for place in (0..log.len()).step_by(17) {
        let damaged = directory.path().join(format!("damaged {place}"));
        copy(&sound, &damaged);
        let mut bytes = log.clone();
        bytes[place] ^= 0x40;
        fs::write(damaged.join("engine/0.jnl"), &bytes).unwrap();
        match Database::open(&damaged, &Options::default()) {
            Ok(database) => {
                assert_eq!(count(&database), 20, "byte {place}");
                whole += 1;
            }
            Err(Error::Corrupt { .. } | Error::Io { .. }) => {
                assert!(log_of(&damaged) == bytes, "byte {place}: changed by a refused opening");
                refused += 1;
            }
            Err(error) => panic!("byte {place}: {error}"),
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
    assert!(refused > whole, "{refused} refused, {whole} whole");
}

/// A batch of many pages was written but not synced when the power failed: any page of it may be missing.
#[test]
fn an_unsynced_batch_that_is_torn_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    commits(&sound, 20);
    let synced = log_of(&sound).len();
    let database = Database::open(&sound, &Options::default()).unwrap();
    commit(&database, vec![], b"large", &[7; 20_000], Durability::Written);
    drop(database);
    let log = log_of(&sound);
    for place in (synced..log.len()).step_by(512) {
        let torn = directory.path().join(format!("torn {place}"));
        copy(&sound, &torn);
        let mut bytes = log.clone();
        let sector = place..log.len().min(place + 512);
        bytes[sector].fill(0);
        fs::write(torn.join("engine/0.jnl"), &bytes).unwrap();
        for round in 0..2 {
            let database = Database::open(&torn, &Options::default()).unwrap();
            assert_eq!(count(&database), 20 + round, "byte {place}");
            commit(&database, vec![], b"another", b"value", Durability::Synced);
        }
        fs::remove_dir_all(&torn).unwrap();
    }
}

/// The tail is put aside for as long as it is not certain that nothing was lost with it, which a crash may interrupt.
#[test]
fn an_interrupted_mending_begins_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    commits(&path, 20);
    let log = path.join("engine/0.jnl");
    fs::write(log.with_extension("found"), log_of(&path)).unwrap();
    fs::write(&log, "").unwrap();
    assert_eq!(count(&Database::open(&path, &Options::default()).unwrap()), 20);
}

/// Without the note of what was synced, the same damage goes unnoticed: the note is what the test above rests on.
#[test]
fn without_the_note_damage_would_be_silent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("database");
    commits(&path, 20);
    let log = log_of(&path);
    fs::write(path.join("engine/0.jnl"), &log[..log.len() / 2]).unwrap();
    let copy_without_note = directory.path().join("without");
    copy(&path, &copy_without_note);
    fs::remove_file(copy_without_note.join("SYNCED")).unwrap();
    assert!(matches!(Database::open(&path, &Options::default()), Err(Error::Corrupt { .. })));
    Database::open(&copy_without_note, &Options::default()).unwrap();
}

/// The engine's log without the space that it has in reserve.
fn log_of(database: &Path) -> Vec<u8> {
    let mut log = fs::read(database.join("engine/0.jnl")).unwrap();
    let end = log.iter().rposition(|byte| *byte != 0).unwrap();
    log.truncate(end + 1);
    log
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
