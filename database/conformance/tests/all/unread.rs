//! Rows that are changed by their rowid: on a server such a statement does not look whether they are there before it
//! commits. Nobody may notice.

use fulmar_conformance::database;
use rusqlite::{Connection, Result};

const SCHEMA: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b INTEGER UNIQUE);
    CREATE TABLE log(what);
    CREATE TABLE u(id INTEGER PRIMARY KEY, a);
    CREATE TRIGGER told AFTER UPDATE ON u BEGIN INSERT INTO log VALUES (new.id); END;
    CREATE TRIGGER refused AFTER UPDATE ON u WHEN new.a = 'no' BEGIN SELECT RAISE(ABORT, 'refused'); END;
    INSERT INTO t VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30);
    INSERT INTO u VALUES (1, 'one'), (2, 'two')";

fn two() -> (tempfile::TempDir, Connection, Connection) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = || database::open(&database::under_test(directory.path())).expect("a connection");
    let (one, other) = (open(), open());
    one.execute_batch(SCHEMA).expect("tables");
    (directory, one, other)
}

fn text(connection: &Connection, sql: &str) -> Result<Option<String>> {
    connection.query_row(sql, [], |row| row.get(0))
}

const ROWS: &str = "SELECT group_concat(id || a || b ORDER BY id) FROM t";

#[test]
fn rows_that_are_there_are_changed_and_others_are_not() {
    let (_directory, one, other) = two();
    let mut update = one.prepare("UPDATE t SET a = ?2 WHERE id = ?1").expect("a statement");
    let mut delete = other.prepare("DELETE FROM t WHERE id = ?1").expect("a statement");
    assert_eq!(update.execute((1, "eins")), Ok(1));
    assert_eq!(update.execute((4, "vier")), Ok(0));
    assert_eq!(delete.execute([4]), Ok(0));
    assert_eq!(delete.execute([2]), Ok(1));
    assert_eq!(delete.execute([2]), Ok(0));
    assert_eq!(update.execute((2, "zwei")), Ok(0));
    assert_eq!(one.execute("UPDATE t SET a = 'x' WHERE id IN (1, 2, 3)", []), Ok(2));
    assert_eq!(text(&other, ROWS), Ok(Some("1x10,3x30".into())));
    assert_eq!(one.execute("UPDATE t SET b = b + 1 WHERE id = 3", []), Ok(1));
    assert_eq!(one.execute("UPDATE t SET b = b + 1 WHERE id = 9", []), Ok(0));
    assert_eq!(text(&other, ROWS), Ok(Some("1x10,3x31".into())));
    let by_index = "SELECT group_concat(b) FROM t INDEXED BY sqlite_autoindex_t_1 WHERE b > 0";
    assert_eq!(text(&other, by_index), Ok(Some("10,31".into())));
}

#[test]
fn errors_are_those_of_rows_that_are_there() {
    let (_directory, one, other) = two();
    let fails = |sql: &str| one.execute(sql, []).map_err(|error| error.to_string());
    assert_eq!(fails("UPDATE t SET a = NULL WHERE id = 9"), Ok(0));
    assert!(fails("UPDATE t SET a = NULL WHERE id = 1").is_err());
    assert_eq!(fails("UPDATE t SET b = 20 WHERE id = 9"), Ok(0));
    assert!(fails("UPDATE t SET b = 20 WHERE id = 1").is_err());
    assert_eq!(fails("UPDATE u SET a = 'no' WHERE id = 9"), Ok(0));
    assert_eq!(fails("UPDATE u SET a = 'no' WHERE id = 1"), Err("refused".into()));
    assert_eq!(fails("UPDATE u SET a = 'yes' WHERE id IN (1, 9)"), Ok(1));
    assert_eq!(text(&other, "SELECT group_concat(what) FROM log"), Ok(Some("1".into())));
    assert!(fails("UPDATE OR FAIL t SET b = 50 WHERE id IN (1, 2)").is_err());
    assert_eq!(text(&other, ROWS), Ok(Some("1one50,2two20,3three30".into())));
}

#[test]
fn what_is_returned_was_looked_at() {
    let (_directory, one, _other) = two();
    let returning = |id: i64| -> Result<Vec<String>> {
        let mut update = one.prepare("UPDATE t SET a = 'new' WHERE id = ?1 RETURNING a || b")?;
        update.query_map([id], |row| row.get(0))?.collect()
    };
    assert_eq!(returning(1), Ok(vec!["new10".into()]));
    assert_eq!(returning(9), Ok(Vec::new()));
}

#[test]
fn the_schema_is_the_one_that_the_statement_was_prepared_for() {
    let (_directory, one, other) = two();
    let mut update = one.prepare("UPDATE u SET a = ?2 WHERE id = ?1").expect("a statement");
    assert_eq!(update.execute((1, "x")), Ok(1));
    other.execute_batch("DROP TRIGGER told; CREATE INDEX i ON u(a)").expect("changes");
    assert_eq!(update.execute((2, "y")), Ok(1));
    assert_eq!(text(&other, "SELECT group_concat(what) FROM log"), Ok(Some("1".into())));
    let by_index = "SELECT group_concat(id || a) FROM u INDEXED BY i WHERE a > ''";
    assert_eq!(text(&other, by_index), Ok(Some("1x,2y".into())));
    other.execute_batch("DROP TABLE u").expect("drops");
    let error = update.execute((1, "z")).expect_err("the table is gone").to_string();
    assert!(error.contains("no such table: u"), "{error}");
}

/// The snapshot of a transaction that first asks whether anything has changed was newer than the schema that it took for granted: what it
/// changed was missing from a new index.
#[test]
fn the_schema_is_that_of_the_snapshot_whoever_takes_it() {
    let (_directory, one, other) = two();
    assert_eq!(one.execute("UPDATE u SET a = 'x' WHERE id = 1", []), Ok(1));
    other.execute_batch("CREATE INDEX i ON u(a)").expect("changes");
    one.execute_batch("BEGIN").expect("begins");
    let version = one.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0));
    assert!(version.is_ok(), "{version:?}");
    assert_eq!(one.execute("UPDATE u SET a = 'y' WHERE id = 2", []), Ok(1));
    one.execute_batch("COMMIT").expect("nobody else has changed anything since");
    let by_index = "SELECT group_concat(id || a) FROM u INDEXED BY i WHERE a > ''";
    assert_eq!(text(&other, by_index), Ok(Some("1x,2y".into())));
    assert_eq!(text(&other, "PRAGMA integrity_check"), Ok(Some("ok".into())));
}

#[test]
fn in_a_transaction_changes_are_told_at_once() {
    let (_directory, one, other) = two();
    one.execute_batch("BEGIN").expect("begins");
    assert_eq!(one.execute("UPDATE t SET a = 'x' WHERE id = 9", []), Ok(0));
    assert_eq!(one.execute("UPDATE t SET a = 'x' WHERE id = 1", []), Ok(1));
    assert_eq!(other.execute("UPDATE t SET a = 'y' WHERE id = 1", []), Ok(1));
    assert!(one.execute_batch("COMMIT").is_err(), "both have changed the row");
    assert_eq!(text(&one, ROWS), Ok(Some("1y10,2two20,3three30".into())));
}
