//! AUTOINCREMENT with several connections.

use crate::basics::rows;
use crate::concurrency::{BUSY_SNAPSHOT, connections, failure, number};
use crate::pair::Pair;
use rusqlite::Connection;

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x)";

fn run(connection: &Connection, sql: &str) {
    connection.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// The only number that there is.
fn largest(connection: &Connection) -> i64 {
    assert_eq!(number(connection, "SELECT count(*) FROM sqlite_sequence WHERE name = 't'"), 1);
    number(connection, "SELECT seq FROM sqlite_sequence WHERE name = 't'")
}

#[test]
fn inserts_do_not_conflict() {
    let begins = ["", "INSERT INTO t(x) VALUES (0)", "INSERT INTO t VALUES (10, 0); DELETE FROM t"];
    for (begin, expected) in begins.into_iter().zip([[1, 2], [2, 3], [11, 12]]) {
        let (_directory, [a, b]) = connections(&format!("{TABLE}; {begin}"));
        for c in [&a, &b] {
            run(c, "BEGIN; SELECT count(*) FROM t; INSERT INTO t(x) VALUES (1)");
        }
        run(&b, "COMMIT");
        run(&a, "COMMIT");
        for (row, id) in expected.into_iter().enumerate() {
            let found = number(&a, &format!("SELECT id FROM t WHERE x = 1 ORDER BY id LIMIT 1 OFFSET {row}"));
            assert_eq!(found, id, "{begin}");
        }
        assert_eq!(largest(&a), expected[1], "{begin}");
    }
}

#[test]
fn an_id_is_not_used_again() {
    let (_directory, [a, b]) = connections(TABLE);
    run(&a, "BEGIN; INSERT INTO t(x) VALUES ('a')");
    run(&b, "INSERT INTO t(x) VALUES ('b')");
    let last = largest(&b);
    run(&b, "DELETE FROM t");
    run(&a, "COMMIT");
    run(&a, "INSERT INTO t(x) VALUES ('c')");
    assert!(number(&a, "SELECT id FROM t WHERE x = 'c'") > last);
}

#[test]
fn a_transaction_sees_its_own_number_and_rolls_it_back() {
    let pair = Pair::new();
    pair.script(
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x);
         CREATE TABLE u(id INTEGER PRIMARY KEY AUTOINCREMENT, x);
         INSERT INTO t(x) VALUES (1);
         BEGIN;
         INSERT INTO t(x) VALUES (2), (3);
         INSERT INTO u(x) VALUES (1);
         SELECT * FROM sqlite_sequence;
         SAVEPOINT s;
         INSERT INTO t VALUES (100, 4);
         SELECT * FROM sqlite_sequence;
         ROLLBACK TO s;
         SELECT * FROM sqlite_sequence;
         INSERT INTO t(x) VALUES (5);
         COMMIT;
         SELECT * FROM sqlite_sequence;
         BEGIN;
         INSERT INTO t(x) VALUES (6);
         ROLLBACK;
         SELECT * FROM sqlite_sequence;
         UPDATE sqlite_sequence SET seq = 50 WHERE name = 't';
         INSERT INTO t(x) VALUES (7);
         BEGIN;
         INSERT INTO t(x) VALUES (8);
         UPDATE sqlite_sequence SET seq = 9 WHERE name = 't';
         COMMIT;
         SELECT * FROM sqlite_sequence;
         BEGIN;
         UPDATE sqlite_sequence SET seq = 70 WHERE name = 't';
         INSERT INTO t(x) VALUES (9);
         DELETE FROM t;
         UPDATE sqlite_sequence SET seq = 0;
         INSERT INTO t(x) VALUES (10);
         COMMIT;
         SELECT * FROM sqlite_sequence;
         BEGIN;
         INSERT INTO u(x) VALUES (11);
         DELETE FROM sqlite_sequence;
         INSERT INTO u(x) VALUES (12);
         DROP TABLE t;
         COMMIT;
         SELECT * FROM sqlite_sequence;
         SELECT * FROM u",
    );
}

#[test]
fn numbers_set_by_hand_conflict() {
    let (_directory, [a, b]) = connections(&format!("{TABLE}; INSERT INTO t(x) VALUES (0)"));
    run(&a, "BEGIN; UPDATE sqlite_sequence SET seq = 50; INSERT INTO t(x) VALUES (1)");
    run(&b, "BEGIN; UPDATE sqlite_sequence SET seq = 70; INSERT INTO t(x) VALUES (2)");
    run(&a, "COMMIT");
    assert_eq!(failure(b.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
    assert_eq!(largest(&b), 51);
}

#[test]
fn a_schema_change_beside_an_insert_leaves_the_numbers_alone() {
    let (_directory, [a, b]) = connections(&format!("{TABLE}; INSERT INTO t(x) VALUES (0)"));
    run(&a, "BEGIN; INSERT INTO t(x) VALUES (1)");
    run(&b, "DROP TABLE t");
    assert_eq!(failure(a.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
    assert_eq!(rows(&a, "SELECT * FROM sqlite_sequence"), Vec::<Vec<_>>::new());
}

/// As an earlier version could leave them on servers.
#[test]
fn of_several_numbers_for_a_table_the_largest_counts() {
    let (_directory, [a, b]) = connections(&format!("{TABLE}; INSERT INTO t(x) VALUES (0)"));
    run(&a, "INSERT INTO sqlite_sequence VALUES ('u', 50), ('t', 30), ('t', 20)");
    run(&a, "INSERT INTO t(x) VALUES (1); DELETE FROM t");
    run(&b, "INSERT INTO t(x) VALUES (2)");
    assert_eq!(number(&b, "SELECT id FROM t"), 32);
    assert_eq!(number(&b, "SELECT max(seq) FROM sqlite_sequence WHERE name = 't'"), 32);
}
