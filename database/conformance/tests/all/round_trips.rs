//! How often a connection waits for servers, counted by the transport, once it knows the inner nodes of its
//! trees. The servers keep them in memory: who waits longer than half a second, for a disk say, asks again, and that counts.

use fulmar_cluster::Replication;
use fulmar_conformance::{
    database,
    server::{self, Keep},
};
use rusqlite::{Connection, ffi};
use std::sync::OnceLock;

/// Rows of each table: leaves under inner nodes.
const ROWS: i64 = 2_000;

/// A connection to a database of a cluster of three servers, with tables on each: `t0`, `t1` and `t2`, whose leaves may move,
/// and `s0`, `s1` and `s2` of one leaf each, which stay. It has read in all of them.
fn warm(database: &str) -> Connection {
    static CLUSTER: OnceLock<String> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| {
        server::start(3, Keep::InMemory, Replication::default()).expect("servers on loopback")
    });
    let connection = database::open(&format!("fulmar://{cluster}/{database}")).expect("a connection");
    spread(&connection, "t", "id INTEGER PRIMARY KEY, k INTEGER UNIQUE, v TEXT");
    spread(&connection, "s", "id INTEGER PRIMARY KEY, v TEXT");
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
        // The first commits in a shard, and in a tree that was a single leaf, also find out what has changed.
        let first =
            format!("UPDATE t{table} SET v = 'first' WHERE id = 1; DELETE FROM t{table} WHERE id = 2");
        connection.execute_batch(&first).expect("changes");
    }
    for table in 0..3 {
        let few = format!(
            "INSERT INTO s{table} SELECT id, v FROM t0 WHERE id < 10; UPDATE s{table} SET v = 'first' WHERE id = 1"
        );
        connection.execute_batch(&few).expect("rows");
    }
    connection
}

/// Makes a table in each of three shards.
fn spread(connection: &Connection, name: &str, columns: &str) {
    let mut held = Vec::new();
    for n in 0.. {
        let table = format!("{name}_made_{n}");
        connection.execute_batch(&format!("CREATE TABLE {table}({columns})")).expect("a table");
        let shard: i64 = connection
            .query_row("SELECT rootpage >> 22 FROM sqlite_schema WHERE name = ?1", [&table], |row| row.get(0))
            .expect("its shard");
        if !held.contains(&shard) {
            let rename = format!("ALTER TABLE {table} RENAME TO {name}{}", held.len());
            connection.execute_batch(&rename).expect("renamed");
            held.push(shard);
        }
        if held.len() == 3 {
            break;
        }
    }
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
fn cost(connection: &Connection, statements: &[String]) -> Vec<i64> {
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

/// Statements, in which `@` stands for a number, take so many round trips: at one of some numbers, as leaves may have moved
/// to another server just when the first was tried.
#[track_caller]
fn take<const N: usize>(connection: &Connection, statements: [&str; N], expected: [i64; N]) {
    let at = |number: i64| statements.map(|sql| sql.replace('@', &number.to_string()));
    let costs: Vec<_> =
        (1..10).map(|number| number * 190).map(|number| cost(connection, &at(number))).collect();
    assert!(costs.iter().any(|cost| *cost == expected), "{statements:?} cost {costs:?}, not {expected:?}");
}

#[test]
fn a_row_is_found_in_one() {
    let connection = warm("find");
    take(&connection, ["SELECT v FROM t0 WHERE id = @"], [1]);
    take(&connection, ["SELECT v FROM t1 WHERE id = @", "SELECT v FROM t2 WHERE id = @"], [1, 1]);
    // The entry, and then the row.
    take(&connection, ["SELECT v FROM t0 WHERE k = @ * 7"], [2]);
    take(&connection, ["SELECT k FROM t0 WHERE k = @ * 7"], [1]);
    take(&connection, ["SELECT v FROM t0 WHERE id = -@"], [1]);
}

#[test]
fn a_row_is_changed_in_two_at_most() {
    let connection = warm("change");
    // All that a row holds is new.
    assert_eq!(cost(&connection, &["UPDATE s0 SET v = 'new' WHERE id = 3".into()]), [1]);
    take(&connection, ["UPDATE t0 SET v = 'new' WHERE id = @"], [2]);
    take(&connection, ["UPDATE t0 SET v = v || 'er' WHERE id = @"], [2]);
    take(&connection, ["UPDATE t2 SET v = 'new' WHERE id = @ RETURNING id"], [2]);
    let read: String =
        connection.query_row("SELECT v FROM t0 WHERE id = 190", [], |row| row.get(0)).expect("the row");
    assert_eq!(read, "newer");
}

#[test]
fn a_transaction_of_one_shard_reads_and_commits_in_one() {
    let connection = warm("one");
    // What is read for a row may tell of those after it, and of none before it.
    let rows = [
        "BEGIN",
        "SELECT v FROM t0 WHERE id = @",
        "SELECT v FROM t0 WHERE id = @ - 50",
        "UPDATE t0 SET v = 'a' WHERE id = @ - 100",
        "UPDATE t0 SET v = 'b' WHERE id = @ - 150",
        "COMMIT",
    ];
    take(&connection, rows, [0, 1, 1, 1, 1, 1]);
    take(&connection, ["BEGIN", "SELECT v FROM t0 WHERE id = @", "COMMIT"], [0, 1, 0]);
}

#[test]
fn a_transaction_of_several_shards_reads_and_commits_in_two_phases() {
    let connection = warm("several");
    let two = [
        "BEGIN",
        "UPDATE s0 SET v = v || 'a' WHERE id = 3",
        "UPDATE s1 SET v = v || 'b' WHERE id = 4",
        "COMMIT",
    ];
    assert_eq!(cost(&connection, &two.map(Into::into)), [0, 1, 1, 2]);
    let three = [
        "BEGIN",
        "SELECT v FROM s2 WHERE id = 2",
        "UPDATE s0 SET v = v || 'c' WHERE id = 5",
        "UPDATE s0 SET v = v || 'c' WHERE id = 6",
        "UPDATE s1 SET v = v || 'd' WHERE id = 7",
        "DELETE FROM t2 WHERE id = @ + 25",
        "COMMIT",
    ];
    // Of what is deleted the entry in the index is read, too.
    take(&connection, three, [0, 1, 1, 1, 1, 2, 2]);
}

#[test]
fn rows_of_growing_numbers_are_found_absent_at_once() {
    let connection = warm("absent");
    let first: i64 = 5_000;
    let mut statements = vec!["BEGIN".to_owned()];
    statements.extend((first..first + 8).map(|id| format!("INSERT INTO s0 VALUES({id}, 'new')")));
    statements.push("COMMIT".into());
    // What the first has read tells of all that follow.
    assert_eq!(cost(&connection, &statements), [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    let many: Vec<_> = (first..first + 8).map(|id| format!("({id}, 'new')")).collect();
    assert_eq!(cost(&connection, &[format!("INSERT INTO s1 VALUES {}", many.join(", "))]), [2]);
    // One that is there is still found.
    let again = connection.execute("INSERT INTO s0 VALUES(5003, 'again')", []).expect_err("it is there");
    assert_eq!(again.sqlite_error_code(), Some(ffi::ErrorCode::ConstraintViolation));
}

#[test]
fn only_for_names_that_are_not_found_is_the_schema_asked_for() {
    let connection = warm("names");
    let prepare = |sql| {
        let before = round_trips(&connection);
        let outcome = connection.prepare(sql).map(|_| ()).map_err(|error| error.to_string());
        (outcome, round_trips(&connection) - before)
    };
    assert_eq!(prepare("SELECT v FROM t0 WHERE id = 1"), (Ok(()), 0));
    assert_eq!(prepare("INSERT INTO s1(v) SELECT t1.v FROM t1 JOIN t2 USING (id)"), (Ok(()), 0));
    let (outcome, trips) = prepare("SELECT v FROM t9");
    assert!(outcome.is_err_and(|error| error.contains("no such table: t9")));
    assert_eq!(trips, 1);
    // What reads nothing else asks for it too.
    assert_eq!(cost(&connection, &["DROP TABLE IF EXISTS t9".into()]), [1]);
}
