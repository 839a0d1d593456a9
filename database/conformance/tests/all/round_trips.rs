//! How often a connection waits for servers, counted by the transport, once it knows the inner nodes of its
//! trees. The servers keep them in memory: who waits longer than half a second, for a disk say, asks again, and that counts.

use fulmar_conformance::{
    database,
    server::{self, Keep},
};
use rusqlite::{Connection, ffi};
use std::sync::OnceLock;

/// Rows of each table: leaves under inner nodes.
const ROWS: i64 = 2_000;

/// A connection to a database of a cluster of three servers, with a table `t0`, `t1` and `t2` on each. It has read in all of
/// them.
fn warm(database: &str) -> Connection {
    static CLUSTER: OnceLock<String> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| server::start(3, Keep::InMemory).expect("servers on loopback"));
    let connection = database::open(&format!("fulmar://{cluster}/{database}")).expect("a connection");
    let mut held = Vec::new();
    for n in 0.. {
        let table = format!("made{n}");
        connection
            .execute_batch(&format!("CREATE TABLE {table}(id INTEGER PRIMARY KEY, k INTEGER UNIQUE, v TEXT)"))
            .expect("a table");
        let group: i64 = connection
            .query_row("SELECT rootpage >> 22 FROM sqlite_schema WHERE name = ?1", [&table], |row| row.get(0))
            .expect("its group");
        if !held.contains(&group) {
            connection
                .execute_batch(&format!("ALTER TABLE {table} RENAME TO t{}", held.len()))
                .expect("renamed");
            held.push(group);
        }
        if held.len() == 3 {
            break;
        }
    }
    for table in 0..3 {
        let fill = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
             INSERT INTO t{table} SELECT i, i * 7, printf('%050d', i) FROM n"
        );
        connection.execute_batch(&fill).expect("rows");
        for id in (1..ROWS).step_by(20) {
            let look = |column, value| {
                let sql = format!("SELECT v FROM t{table} WHERE {column} = ?1");
                connection.query_row(&sql, [value], |row| row.get::<_, String>(0)).expect("a row")
            };
            assert_eq!(look("id", id), look("k", id * 7));
        }
        // The first commits in a group, and in a tree that was a single leaf, also find out what has changed.
        let first =
            format!("UPDATE t{table} SET v = 'first' WHERE id = 1; DELETE FROM t{table} WHERE id = 2");
        connection.execute_batch(&first).expect("changes");
    }
    connection
        .execute_batch(
            "CREATE TABLE pair(id INTEGER PRIMARY KEY, v); INSERT INTO pair VALUES (1, 'one'), (2, 'two');
             UPDATE pair SET v = 'first' WHERE id = 1",
        )
        .expect("a table without an index");
    connection
}

fn round_trips(connection: &Connection) -> i64 {
    let mut count: i64 = 0;
    #[expect(unsafe_code, reason = "rusqlite has no call for it")]
    // SAFETY: the connection is open, and the operation writes an `sqlite3_int64`.
    let code = unsafe {
        let main = c"main".as_ptr();
        let count = std::ptr::from_mut(&mut count).cast();
        ffi::sqlite3_file_control(connection.handle(), main, fulmar_sql::FCNTL_ROUND_TRIPS, count)
    };
    assert_eq!(code, ffi::SQLITE_OK);
    count
}

/// How many round trips each of these statements takes.
fn cost(connection: &Connection, statements: &[&str]) -> Vec<i64> {
    let mut prepared: Vec<_> =
        statements.iter().map(|sql| connection.prepare(sql).expect("a statement")).collect();
    let run = |statement: &mut rusqlite::Statement<'_>| {
        let before = round_trips(connection);
        let mut rows = statement.query([]).expect("it runs");
        while rows.next().expect("it goes on").is_some() {}
        drop(rows);
        round_trips(connection) - before
    };
    prepared.iter_mut().map(run).collect()
}

#[test]
fn a_row_is_found_in_one() {
    let connection = warm("find");
    assert_eq!(cost(&connection, &["SELECT v FROM t0 WHERE id = 500"]), [1]);
    assert_eq!(
        cost(&connection, &["SELECT v FROM t1 WHERE id = 501", "SELECT v FROM t2 WHERE id = 9"]),
        [1, 1]
    );
    // The entry, and then the row.
    assert_eq!(cost(&connection, &["SELECT v FROM t0 WHERE k = 70"]), [2]);
    assert_eq!(cost(&connection, &["SELECT k FROM t0 WHERE k = 77"]), [1]);
    assert_eq!(cost(&connection, &["SELECT v FROM t0 WHERE id = -5"]), [1]);
}

#[test]
fn a_row_is_changed_in_two_at_most() {
    let connection = warm("change");
    // All that a row holds is new.
    assert_eq!(cost(&connection, &["UPDATE pair SET v = 'new' WHERE id = 2"]), [1]);
    assert_eq!(cost(&connection, &["UPDATE t0 SET v = 'new' WHERE id = 500"]), [2]);
    assert_eq!(cost(&connection, &["UPDATE t0 SET v = v || 'er' WHERE id = 500"]), [2]);
    assert_eq!(cost(&connection, &["UPDATE t2 SET v = 'new' WHERE id = 40 RETURNING id"]), [2]);
    let read: String =
        connection.query_row("SELECT v FROM t0 WHERE id = 500", [], |row| row.get(0)).expect("the row");
    assert_eq!(read, "newer");
}

#[test]
fn a_transaction_of_one_group_reads_and_commits_in_one() {
    let connection = warm("one");
    let rows = [
        "BEGIN",
        "SELECT v FROM t0 WHERE id = 5",
        "SELECT v FROM t0 WHERE id = 905",
        "UPDATE t0 SET v = 'a' WHERE id = 25",
        "UPDATE t0 SET v = 'b' WHERE id = 1925",
        "COMMIT",
    ];
    assert_eq!(cost(&connection, &rows), [0, 1, 1, 1, 1, 1]);
    assert_eq!(cost(&connection, &["BEGIN", "SELECT v FROM t0 WHERE id = 5", "COMMIT"]), [0, 1, 0]);
}

#[test]
fn a_transaction_of_several_groups_reads_and_commits_in_two_phases() {
    let connection = warm("several");
    let two =
        ["BEGIN", "UPDATE t0 SET v = 'a' WHERE id = 25", "UPDATE t1 SET v = 'b' WHERE id = 25", "COMMIT"];
    assert_eq!(cost(&connection, &two), [0, 1, 1, 2]);
    let three = [
        "BEGIN",
        "SELECT v FROM t2 WHERE id = 1000",
        "UPDATE t0 SET v = 'c' WHERE id = 125",
        "UPDATE t0 SET v = 'c' WHERE id = 1125",
        "UPDATE t1 SET v = 'd' WHERE id = 125",
        "DELETE FROM t2 WHERE id = 125",
        "COMMIT",
    ];
    // Of what is deleted the entry in the index is read, too.
    assert_eq!(cost(&connection, &three), [0, 1, 1, 1, 1, 2, 2]);
}
