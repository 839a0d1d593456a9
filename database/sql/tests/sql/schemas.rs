//! Changes of the schema beside other transactions.

use crate::basics::rows;
use crate::concurrency::{BUSY_SNAPSHOT, connections, failure, number};
use rusqlite::{Connection, types::Value};

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y); INSERT INTO t VALUES (1, 1, 1)";

fn run(connection: &Connection, sql: &str) {
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn sound(connection: &Connection) {
    assert_eq!(rows(connection, "PRAGMA integrity_check"), [[Value::Text("ok".into())]]);
}

#[test]
fn the_second_to_make_a_table_loses() {
    let (_directory, [a, b]) = connections("");
    run(&a, "BEGIN; CREATE TABLE a(x); INSERT INTO a VALUES (1)");
    run(&b, "BEGIN; CREATE TABLE b(x); INSERT INTO b VALUES (2)");
    run(&a, "COMMIT");
    assert_eq!(failure(b.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
    run(&b, "CREATE TABLE b(x)");
    assert_eq!(number(&b, "SELECT x FROM a"), 1);
    assert_eq!(number(&b, "SELECT count(*) FROM b"), 0);
    sound(&a);
}

#[test]
fn an_index_has_the_rows_that_others_insert_meanwhile() {
    for change in ["CREATE INDEX tx ON t(x)", "CREATE UNIQUE INDEX tx ON t(x)", "ALTER TABLE t DROP COLUMN y"]
    {
        let (_directory, [a, b]) = connections(TABLE);
        run(&a, "BEGIN");
        run(&a, change);
        run(&b, "INSERT INTO t(x) VALUES (2)");
        assert_eq!(failure(a.execute_batch("COMMIT")).0, BUSY_SNAPSHOT, "{change}");
        // The same again, now that there was a change of the schema already.
        run(&a, "BEGIN");
        run(&a, change);
        run(&b, "INSERT INTO t(x) VALUES (3)");
        assert_eq!(failure(a.execute_batch("COMMIT")).0, BUSY_SNAPSHOT, "{change}");
        run(&a, change);
        sound(&a);
        assert_eq!(number(&b, "SELECT count(*) FROM t WHERE x > 0"), 3);
    }
}

#[test]
fn who_inserts_loses_against_an_index_made_meanwhile() {
    let (_directory, [a, b]) = connections(TABLE);
    for change in ["CREATE INDEX tx ON t(x)", "CREATE INDEX ty ON t(y)", "DROP INDEX tx"] {
        run(&b, "BEGIN; INSERT INTO t(x) VALUES (2)");
        run(&a, change);
        assert_eq!(failure(b.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
        run(&b, "INSERT INTO t(x) VALUES (2)");
        sound(&a);
    }
}

/// It reads no data, so whoever changes data first does not matter to it.
#[test]
fn a_new_table_does_not_lose_against_changes_of_data() {
    let (_directory, [a, b]) = connections(TABLE);
    run(&a, "BEGIN; CREATE TABLE n(x); INSERT INTO n VALUES (1); CREATE INDEX nx ON n(x)");
    run(&b, "INSERT INTO t(x) VALUES (2)");
    run(&a, "COMMIT");
    sound(&a);
}

#[test]
fn changes_of_data_do_not_conflict_with_each_other() {
    let (_directory, [a, b]) = connections(TABLE);
    run(&a, "BEGIN; INSERT INTO t(x) VALUES (2)");
    run(&b, "BEGIN; INSERT INTO t(x) VALUES (3)");
    run(&a, "COMMIT");
    run(&b, "COMMIT");
    assert_eq!(number(&a, "SELECT count(*) FROM t"), 3);
}
