//! The Hermitage scenarios, written for snapshot isolation: what each anomaly would look like, and that it does not
//! occur. `Deny` marks the COMMIT of the transaction that loses.

use fulmar_conformance::database;
use rusqlite::Connection;

enum Step {
    /// Succeeds.
    Do(usize, &'static str),
    /// Answers these integers.
    See(usize, &'static str, &'static [i64]),
    /// Fails with SQLITE_BUSY_SNAPSHOT and rolls back.
    Deny(usize, &'static str),
}
use Step::{Deny, Do, See};

const BUSY_SNAPSHOT: i32 = 517;
const VALUES: &str = "SELECT value FROM test ORDER BY id";

fn play(scenario: &str, steps: &[Step]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = database::under_test(directory.path());
    let connections: Vec<_> = (0..3).map(|_| database::open(&name).expect("a connection")).collect();
    let tables =
        "CREATE TABLE test(id INTEGER PRIMARY KEY, value INTEGER); INSERT INTO test VALUES (1, 10), (2, 20);";
    connections[0].execute_batch(tables).expect("tables");
    for (n, step) in steps.iter().enumerate() {
        let place = |sql: &str| format!("{scenario}, step {n}: {sql}");
        match step {
            Do(who, sql) => {
                connections[*who].execute_batch(sql).unwrap_or_else(|e| panic!("{}: {e}", place(sql)));
            }
            See(who, sql, expected) => {
                assert_eq!(integers(&connections[*who], sql), *expected, "{}", place(sql))
            }
            Deny(who, sql) => {
                let error = connections[*who].execute_batch(sql).expect_err(&place(sql));
                let code = error.sqlite_error().map(|e| e.extended_code);
                assert_eq!(code, Some(BUSY_SNAPSHOT), "{}", place(sql));
                assert!(connections[*who].is_autocommit(), "{}: still open", place(sql));
            }
        }
    }
}

fn integers(connection: &Connection, sql: &str) -> Vec<i64> {
    let mut statement = connection.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("integers")
}

#[test]
fn g0_writes_are_not_interleaved() {
    play(
        "G0",
        &[
            Do(0, "BEGIN"),
            Do(1, "BEGIN"),
            Do(0, "UPDATE test SET value = 11 WHERE id = 1"),
            Do(1, "UPDATE test SET value = 12 WHERE id = 1"),
            Do(0, "UPDATE test SET value = 21 WHERE id = 2"),
            Do(0, "COMMIT"),
            See(2, VALUES, &[11, 21]),
            Do(1, "UPDATE test SET value = 22 WHERE id = 2"),
            Deny(1, "COMMIT"),
            See(2, VALUES, &[11, 21]),
        ],
    );
}

#[test]
fn g1a_aborted_writes_are_not_read() {
    play(
        "G1a",
        &[
            Do(0, "BEGIN; UPDATE test SET value = 101 WHERE id = 1"),
            Do(1, "BEGIN"),
            See(1, VALUES, &[10, 20]),
            Do(0, "ROLLBACK"),
            See(1, VALUES, &[10, 20]),
            Do(1, "COMMIT"),
        ],
    );
}

#[test]
fn g1b_intermediate_writes_are_not_read() {
    play(
        "G1b",
        &[
            Do(0, "BEGIN; UPDATE test SET value = 101 WHERE id = 1"),
            Do(1, "BEGIN"),
            See(1, VALUES, &[10, 20]),
            Do(0, "UPDATE test SET value = 11 WHERE id = 1; COMMIT"),
            See(1, VALUES, &[10, 20]),
            Do(1, "COMMIT"),
            See(1, VALUES, &[11, 20]),
        ],
    );
}

#[test]
fn g1c_information_does_not_flow_in_circles() {
    play(
        "G1c",
        &[
            Do(0, "BEGIN; UPDATE test SET value = 11 WHERE id = 1"),
            Do(1, "BEGIN; UPDATE test SET value = 22 WHERE id = 2"),
            See(0, "SELECT value FROM test WHERE id = 2", &[20]),
            See(1, "SELECT value FROM test WHERE id = 1", &[10]),
            Do(0, "COMMIT"),
            Do(1, "COMMIT"),
            See(2, VALUES, &[11, 22]),
        ],
    );
}

#[test]
fn otv_an_observed_transaction_does_not_vanish() {
    play(
        "OTV",
        &[
            Do(0, "BEGIN; UPDATE test SET value = 11 WHERE id = 1; UPDATE test SET value = 19 WHERE id = 2"),
            Do(1, "BEGIN; UPDATE test SET value = 12 WHERE id = 1"),
            Do(0, "COMMIT"),
            Do(2, "BEGIN"),
            See(2, VALUES, &[11, 19]),
            Do(1, "UPDATE test SET value = 18 WHERE id = 2"),
            See(2, VALUES, &[11, 19]),
            Deny(1, "COMMIT"),
            See(2, VALUES, &[11, 19]),
            Do(2, "COMMIT"),
        ],
    );
}

#[test]
fn pmp_a_predicate_does_not_change_its_answer() {
    play(
        "PMP",
        &[
            Do(0, "BEGIN"),
            See(0, "SELECT id FROM test WHERE value = 30", &[]),
            Do(1, "INSERT INTO test VALUES (3, 30)"),
            See(0, "SELECT id FROM test WHERE value % 3 = 0", &[]),
            Do(0, "COMMIT"),
            See(0, "SELECT id FROM test WHERE value % 3 = 0", &[3]),
        ],
    );
}

#[test]
fn pmp_a_write_by_predicate_loses_against_what_it_missed() {
    play(
        "PMP write",
        &[
            Do(0, "BEGIN; UPDATE test SET value = value + 10"),
            Do(1, "BEGIN"),
            See(1, "SELECT id FROM test WHERE value = 20", &[2]),
            Do(1, "DELETE FROM test WHERE value = 20"),
            Do(0, "COMMIT"),
            Deny(1, "COMMIT"),
            See(2, VALUES, &[20, 30]),
        ],
    );
}

#[test]
fn p4_no_update_is_lost() {
    play(
        "P4",
        &[
            Do(0, "BEGIN"),
            Do(1, "BEGIN"),
            See(0, "SELECT value FROM test WHERE id = 1", &[10]),
            See(1, "SELECT value FROM test WHERE id = 1", &[10]),
            Do(0, "UPDATE test SET value = 11 WHERE id = 1"),
            Do(1, "UPDATE test SET value = 11 WHERE id = 1"),
            Do(0, "COMMIT"),
            Deny(1, "COMMIT"),
        ],
    );
}

#[test]
fn g_single_reads_are_not_skewed() {
    play(
        "G-single",
        &[
            Do(0, "BEGIN"),
            See(0, "SELECT value FROM test WHERE id = 1", &[10]),
            Do(
                1,
                "BEGIN; UPDATE test SET value = 12 WHERE id = 1; UPDATE test SET value = 18 WHERE id = 2; COMMIT",
            ),
            See(0, "SELECT value FROM test WHERE id = 2", &[20]),
            Do(0, "COMMIT"),
        ],
    );
}

#[test]
fn g_single_a_write_after_a_skewed_read_loses() {
    play(
        "G-single write",
        &[
            Do(0, "BEGIN"),
            See(0, "SELECT value FROM test WHERE id = 1", &[10]),
            Do(1, "UPDATE test SET value = value + 2"),
            Do(0, "DELETE FROM test WHERE value = 20"),
            Deny(0, "COMMIT"),
            See(2, VALUES, &[12, 22]),
        ],
    );
}

/// Snapshot isolation allows write skew, and the documentation says so.
#[test]
fn g2_item_write_skew_is_possible() {
    play(
        "G2-item",
        &[
            Do(0, "BEGIN"),
            Do(1, "BEGIN"),
            See(0, VALUES, &[10, 20]),
            See(1, VALUES, &[10, 20]),
            Do(0, "UPDATE test SET value = 11 WHERE id = 1"),
            Do(1, "UPDATE test SET value = 21 WHERE id = 2"),
            Do(0, "COMMIT"),
            Do(1, "COMMIT"),
            See(2, VALUES, &[11, 21]),
        ],
    );
}

/// A player that could not fail would prove nothing.
#[test]
#[should_panic(expected = "G-single broken, step 3")]
fn skewed_reads_are_noticed() {
    play(
        "G-single broken",
        &[
            // Without BEGIN each SELECT has a snapshot of its own.
            See(0, "SELECT value FROM test WHERE id = 1", &[10]),
            Do(1, "UPDATE test SET value = 12 WHERE id = 1"),
            Do(1, "UPDATE test SET value = 18 WHERE id = 2"),
            See(0, "SELECT value FROM test WHERE id = 2", &[20]),
        ],
    );
}
