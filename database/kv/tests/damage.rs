//! A database whose files were damaged while it was closed.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_kv::{Change, Commit, Database, Durability, Error, ObjectId, Options, Restructuring, Write};
use std::fs;
use std::path::Path;

fn commits(path: &Path, count: u8) {
    let database = Database::open(path, &Options::default()).unwrap();
    let object = ObjectId(7);
    for n in 0..count {
        let change = Change { key: [n].into(), value: Some((*b"value").into()) };
        let commit = Commit {
            snapshot: database.newest(),
            restructurings: if n == 0 { vec![Restructuring::Create { object }] } else { vec![] },
            writes: vec![Write { object, cleared: vec![], changes: vec![change] }],
            ..Commit::default()
        };
        database.commit(commit, Durability::Synced).unwrap();
    }
}

/// Whatever byte of the log is changed: all commits are there, or the database says that it is damaged.
#[test]
fn damage_of_the_log_is_never_silent() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    commits(&sound, 20);
    let log = log_of(&sound);
    let (mut refused, mut whole) = (0, 0);
    for place in (0..log.len()).step_by(7) {
        let damaged = directory.path().join(format!("damaged {place}"));
        copy(&sound, &damaged);
        let mut bytes = log.clone();
        bytes[place] ^= 0x40;
        fs::write(damaged.join("engine/0.jnl"), bytes).unwrap();
        match Database::open(&damaged, &Options::default()) {
            Ok(database) => {
                let object = database.read(ObjectId(7)).unwrap().unwrap();
                assert_eq!(object.count(database.newest()), 20, "byte {place}");
                whole += 1;
            }
            Err(Error::Corrupt { .. } | Error::Io { .. }) => refused += 1,
            Err(error) => panic!("byte {place}: {error}"),
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
    assert!(refused > whole, "{refused} refused, {whole} whole");
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
