//! The first things anybody does.

use rusqlite::{Connection, types::Value};

/// A fresh database; the directory lives as long as the first value.
pub(crate) fn fresh() -> (tempfile::TempDir, Connection) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let connection = Connection::open(format!("fulmar:{}/db", directory.path().display())).expect("opens");
    (directory, connection)
}

/// All rows that a query answers.
pub(crate) fn rows(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = statement.column_count();
    let rows = statement
        .query_map([], |row| (0..columns).map(|i| row.get(i)).collect())
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{sql}: {e}"))
}

#[test]
fn rows_come_back() {
    let (_directory, c) = fresh();
    c.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE, c);
         CREATE INDEX tc ON t(c DESC);
         INSERT INTO t(b, c) VALUES ('one', 1), ('two', 2.5), ('three', NULL), ('four', x'00ff');
         UPDATE t SET c = 9 WHERE b = 'three';
         DELETE FROM t WHERE a = 2;",
    )
    .expect("runs");
    assert_eq!(
        format!("{:?}", rows(&c, "SELECT a, b, c FROM t ORDER BY c DESC")),
        "[[Integer(4), Text(\"four\"), Blob([0, 255])], [Integer(3), Text(\"three\"), Integer(9)], \
         [Integer(1), Text(\"one\"), Integer(1)]]"
    );
    assert_eq!(rows(&c, "PRAGMA integrity_check"), [[Value::Text("ok".into())]]);
    let duplicate = c.execute("INSERT INTO t(b) VALUES ('one')", []).expect_err("duplicate");
    assert!(duplicate.to_string().contains("UNIQUE constraint failed: t.b"), "{duplicate}");
}

#[test]
fn savepoints_nest() {
    let (_directory, c) = fresh();
    c.execute_batch(
        "CREATE TABLE t(a);
         SAVEPOINT one; INSERT INTO t VALUES (1);
         SAVEPOINT two; INSERT INTO t VALUES (2);
         SAVEPOINT three; INSERT INTO t VALUES (3);
         ROLLBACK TO two; INSERT INTO t VALUES (4); RELEASE two;
         ROLLBACK TO one; INSERT INTO t VALUES (5); RELEASE one;",
    )
    .expect("runs");
    assert_eq!(rows(&c, "SELECT a FROM t"), [[Value::Integer(5)]]);
}
