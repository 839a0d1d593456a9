//! The rest of SQLite's interface: ATTACH, blobs, VACUUM INTO, PRAGMAs, messages.

use crate::basics::{fresh, rows};
use rusqlite::{Connection, types::Value};
use std::io::{Read, Seek, SeekFrom, Write};

#[test]
fn databases_of_all_kinds_are_attached_together() {
    let (directory, c) = fresh();
    let at = directory.path().display();
    c.execute_batch(&format!(
        "ATTACH 'fulmar:{at}/other' AS other; ATTACH '{at}/plain.sqlite' AS plain; ATTACH ':memory:' AS memory;
         CREATE TABLE t(a PRIMARY KEY, b);
         CREATE TABLE other.t(a PRIMARY KEY, b); CREATE TABLE plain.t(a PRIMARY KEY, b); CREATE TABLE memory.t(a PRIMARY KEY, b);
         INSERT INTO main.t VALUES ('x', 1), ('y', 2);
         BEGIN;
         INSERT INTO plain.t SELECT * FROM main.t; INSERT INTO other.t SELECT * FROM plain.t;
         INSERT INTO memory.t SELECT * FROM other.t; UPDATE memory.t SET b = b + 10;
         COMMIT;
         INSERT OR REPLACE INTO main.t SELECT * FROM memory.t"
    ))
    .expect("runs");
    assert_eq!(rows(&c, "SELECT sum(b) FROM t"), [[Value::Integer(23)]]);
    assert_eq!(rows(&c, "SELECT count(*) FROM plain.t JOIN other.t USING (a, b)"), [[Value::Integer(2)]]);
    c.execute_batch("BEGIN; DELETE FROM plain.t; DELETE FROM other.t; ROLLBACK; DETACH other").expect("runs");
    assert_eq!(rows(&c, "SELECT count(*) FROM plain.t"), [[Value::Integer(2)]]);
    let wrong =
        c.execute_batch("ATTACH 'fulmar://host:eggs/db' AS far").expect_err("eggs are no port").to_string();
    assert!(wrong.contains("HOST:PORT"), "{wrong}");
}

#[test]
fn blobs_are_read_and_written_in_place() {
    let (_directory, c) = fresh();
    c.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB); INSERT INTO t VALUES (1, zeroblob(1000))",
    )
    .expect("runs");
    let mut blob = c.blob_open("main", "t", "b", 1, false).expect("opens");
    blob.seek(SeekFrom::Start(500)).expect("seeks");
    blob.write_all(b"fulmar").expect("writes");
    blob.seek(SeekFrom::Start(499)).expect("seeks");
    let mut text = [0; 8];
    blob.read_exact(&mut text).expect("reads");
    assert_eq!(&text, b"\0fulmar\0");
    c.execute("UPDATE t SET b = zeroblob(10)", []).expect("updates");
    assert!(blob.read_exact(&mut text).is_err(), "the row has changed");
    drop(blob);
    assert_eq!(rows(&c, "SELECT length(b) FROM t"), [[Value::Integer(10)]]);
}

#[test]
fn vacuum_into_copies_both_ways() {
    let (directory, c) = fresh();
    let at = directory.path().display();
    c.execute_batch(
        "CREATE TABLE t(a PRIMARY KEY, b); CREATE TABLE w(a PRIMARY KEY) WITHOUT ROWID; CREATE VIEW v AS SELECT b FROM t;
         INSERT INTO t VALUES (1, 'one'), (2, 'two'); INSERT INTO w VALUES ('w'); PRAGMA user_version = 9; VACUUM",
    )
    .expect("runs");
    c.execute_batch(&format!("VACUUM INTO '{at}/plain.sqlite'")).expect("exports");
    let plain = Connection::open(directory.path().join("plain.sqlite")).expect("opens");
    let again = Connection::open(format!("fulmar:{at}/again")).expect("opens");
    plain.execute_batch(&format!("VACUUM INTO 'fulmar:{at}/again'")).expect("imports");
    for copy in [&plain, &again] {
        for sql in ["SELECT * FROM t, w, v", "PRAGMA integrity_check", "PRAGMA user_version"] {
            assert_eq!(rows(copy, sql), rows(&c, sql), "{sql}");
        }
    }
    let taken = plain.execute_batch(&format!("VACUUM INTO 'fulmar:{at}/again'")).expect_err("exists");
    assert!(taken.to_string().contains("already exists"), "{taken}");
}

#[test]
fn pragmas_answer() {
    let (directory, c) = fresh();
    let one = |sql: &str| rows(&c, sql).first().and_then(|row| row.first().cloned());
    let wal = Some(Value::Text("wal".into()));
    assert_eq!(one("PRAGMA journal_mode"), wal);
    assert_eq!(one("PRAGMA journal_mode = delete"), wal);
    c.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA cache_size = 100; PRAGMA auto_vacuum = FULL; PRAGMA incremental_vacuum;
         PRAGMA mmap_size = 1000; PRAGMA page_size = 8192; PRAGMA locking_mode = EXCLUSIVE; PRAGMA wal_checkpoint;
         PRAGMA secure_delete = ON; PRAGMA optimize; PRAGMA page_count; PRAGMA freelist_count; PRAGMA quick_check",
    )
    .expect("harmless");
    assert_eq!(one("PRAGMA synchronous"), Some(Value::Integer(1)));
    assert_eq!(one("PRAGMA foreign_keys"), Some(Value::Integer(0)), "as in the builds that people have");
    let path = directory.path().canonicalize().expect("exists").join("db");
    let name = rows(&c, "PRAGMA database_list")[0][2].clone();
    assert_eq!(name, Value::Text(format!("fulmar:{}", path.display())));
}

#[test]
fn collations_of_the_application_cannot_order_an_index() {
    let (_directory, c) = fresh();
    c.create_collation("backwards", |a: &str, b: &str| b.cmp(a)).expect("registers");
    c.execute_batch("CREATE TABLE t(a, b COLLATE backwards); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        .expect("runs");
    assert_eq!(rows(&c, "SELECT a FROM t ORDER BY b"), [[Value::Integer(2)], [Value::Integer(1)]]);
    let refused = c.execute_batch("CREATE INDEX tb ON t(b)").expect_err("refused").to_string();
    assert!(refused.contains("backwards"), "{refused}");
    c.execute_batch("CREATE INDEX tb ON t(b COLLATE BINARY)").expect("runs");
}

#[test]
fn backups_copy_both_ways() {
    let (directory, mut c) = fresh();
    c.execute_batch(
        "CREATE TABLE t(a PRIMARY KEY, b); INSERT INTO t VALUES (1, 'one'), (2, 'two'); PRAGMA user_version = 9",
    )
    .expect("runs");
    let backup = |from: &Connection, to: &mut Connection| {
        rusqlite::backup::Backup::new(from, to).expect("begins").step(-1).expect("copies");
    };
    let mut memory = Connection::open_in_memory().expect("opens");
    memory.execute_batch("CREATE TABLE old(x)").expect("runs");
    backup(&c, &mut memory);
    let mut other = Connection::open(format!("fulmar:{}/other", directory.path().display())).expect("opens");
    let witness = Connection::open(format!("fulmar:{}/other", directory.path().display())).expect("opens");
    other.execute_batch("CREATE TABLE old(x); INSERT INTO old VALUES (1); CREATE TABLE t(y)").expect("runs");
    assert_eq!(rows(&witness, "SELECT x FROM old").len(), 1);
    backup(&memory, &mut other);
    for copy in [&memory, &other, &witness] {
        // The first reads the schema again: a statement counts its columns when it is prepared.
        for sql in [
            "PRAGMA integrity_check",
            "SELECT * FROM t",
            "PRAGMA user_version",
            "SELECT name FROM sqlite_schema",
        ] {
            assert_eq!(rows(copy, sql), rows(&c, sql), "{sql}");
        }
    }
    let bytes = c.serialize("main").expect("serializes");
    assert_eq!(&bytes[..15], b"SQLite format 3");
}

#[test]
fn reading_goes_on_while_the_same_connection_writes() {
    let (_directory, c) = fresh();
    c.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t(b) VALUES (1), (2), (3), (4)")
        .expect("runs");
    let mut statement = c.prepare("SELECT a FROM t ORDER BY a").expect("prepares");
    let mut seen = Vec::new();
    let mut found = statement.query([]).expect("runs");
    while let Some(row) = found.next().expect("steps") {
        let a: i64 = row.get(0).expect("a number");
        seen.push(a);
        c.execute("UPDATE t SET b = b + 1 WHERE a = ?", [a]).expect("writes");
        c.execute("DELETE FROM t WHERE a = ?", [if a == 2 { 3 } else { -1 }]).expect("deletes");
    }
    assert_eq!(seen, [1, 2, 4]);
    drop(found);
    assert_eq!(rows(&c, "SELECT sum(b) FROM t"), [[Value::Integer(10)]]);
}
