//! Several connections to one database.

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// `N` connections to one fresh database.
pub(crate) fn connections<const N: usize>(setup: &str) -> (tempfile::TempDir, [Connection; N]) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let connections = std::array::from_fn(|_| open(&directory));
    let first: &Connection = &connections[0];
    first.execute_batch(setup).expect("sets up");
    (directory, connections)
}

pub(crate) fn open(directory: &tempfile::TempDir) -> Connection {
    Connection::open(format!("fulmar:{}/db", directory.path().display())).expect("opens")
}

pub(crate) fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The extended code and message of a failure.
pub(crate) fn failure<T: std::fmt::Debug>(result: Result<T, Error>) -> (i32, String) {
    match result.expect_err("must fail") {
        Error::SqliteFailure(code, message) => (code.extended_code, message.unwrap_or_default()),
        other => panic!("{other}"),
    }
}

pub(crate) const BUSY_SNAPSHOT: i32 = 517;

#[test]
fn readers_see_one_snapshot() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (1)");
    a.execute_batch("BEGIN").expect("begins");
    assert_eq!(number(&a, "SELECT sum(x) FROM t"), 1);
    b.execute("INSERT INTO t VALUES (10)", []).expect("is not blocked");
    assert_eq!(number(&a, "SELECT sum(x) FROM t"), 1);
    a.execute_batch("COMMIT").expect("commits");
    assert_eq!(number(&a, "SELECT sum(x) FROM t"), 11);
}

#[test]
fn writers_of_different_rows_both_commit() {
    let (_directory, [a, b]) =
        connections("CREATE TABLE t(k PRIMARY KEY, x); INSERT INTO t VALUES (1, 0), (2, 0)");
    a.execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = 1 WHERE k = 1; INSERT INTO t VALUES (3, 3)")
        .expect("writes");
    b.execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = 2 WHERE k = 2; INSERT INTO t VALUES (4, 4)")
        .expect("writes");
    a.execute_batch("COMMIT").expect("commits");
    b.execute_batch("COMMIT").expect("commits");
    assert_eq!(number(&a, "SELECT sum(x) FROM t"), 10);
    assert_eq!(number(&a, "SELECT count(DISTINCT rowid) FROM t"), 4);
}

#[test]
fn the_second_writer_of_a_row_is_told() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(k PRIMARY KEY, x); INSERT INTO t VALUES (1, 0)");
    a.execute_batch("BEGIN; UPDATE t SET x = x + 1").expect("writes");
    b.execute_batch("BEGIN; UPDATE t SET x = x + 10").expect("writes");
    a.execute_batch("COMMIT").expect("commits");
    let (code, message) = failure(b.execute_batch("COMMIT"));
    assert_eq!(code, BUSY_SNAPSHOT);
    assert!(message.contains("conflict") && message.contains("retry"), "{message}");
    assert!(b.is_autocommit());
    assert_eq!(number(&b, "SELECT x FROM t"), 1);
}

#[test]
fn a_duplicate_is_a_conflict() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(k UNIQUE)");
    a.execute_batch("BEGIN; INSERT INTO t VALUES ('same')").expect("writes");
    b.execute_batch("BEGIN; INSERT INTO t VALUES ('same')").expect("writes");
    a.execute_batch("COMMIT").expect("commits");
    assert_eq!(failure(b.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
}

#[test]
fn a_child_and_the_deletion_of_its_parent_conflict() {
    for parent_key in ["id INTEGER PRIMARY KEY", "id UNIQUE"] {
        for child_first in [true, false] {
            let (_directory, [a, b]) = connections(&format!(
                "CREATE TABLE p({parent_key}); CREATE TABLE c(p REFERENCES p(id)); INSERT INTO p VALUES (1)"
            ));
            a.execute_batch("PRAGMA foreign_keys = ON; BEGIN; INSERT INTO c VALUES (1)").expect("writes");
            b.execute_batch("PRAGMA foreign_keys = ON; BEGIN; DELETE FROM p").expect("writes");
            let (first, second) = if child_first { (&a, &b) } else { (&b, &a) };
            first.execute_batch("COMMIT").expect("commits");
            assert_eq!(failure(second.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
        }
    }
}

#[test]
fn a_child_and_a_change_of_its_parent_do_not_conflict() {
    for parent in
        ["p(id INTEGER PRIMARY KEY, x)", "p(id INT PRIMARY KEY, x) WITHOUT ROWID", "p(x, id UNIQUE)"]
    {
        for child_first in [true, false] {
            let (_directory, [a, b]) = connections(&format!(
                "CREATE TABLE {parent}; CREATE TABLE c(p REFERENCES p(id)); INSERT INTO p(id, x) VALUES (1, 0)"
            ));
            a.execute_batch("PRAGMA foreign_keys = ON; BEGIN; INSERT INTO c VALUES (1)").expect("writes");
            b.execute_batch("PRAGMA foreign_keys = ON; BEGIN; UPDATE p SET x = 1").expect("writes");
            let (first, second) = if child_first { (&a, &b) } else { (&b, &a) };
            first.execute_batch("COMMIT").expect("commits");
            second.execute_batch("COMMIT").unwrap_or_else(|e| panic!("{parent}: {e}"));
            assert_eq!(number(&a, "SELECT x FROM p JOIN c ON p = id"), 1);
        }
    }
}

#[test]
fn a_schema_change_and_a_write_conflict() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x)");
    a.execute_batch("BEGIN; INSERT INTO t VALUES (1)").expect("writes");
    b.execute_batch("CREATE INDEX tx ON t(x)").expect("is not blocked");
    assert_eq!(failure(a.execute_batch("COMMIT")).0, BUSY_SNAPSHOT);
    a.execute("INSERT INTO t VALUES (2)", []).expect("reads the new schema");
    assert_eq!(number(&b, "SELECT count(*) FROM t INDEXED BY tx"), 1);
}

/// A change of the schema is prepared again whenever it has lost, and so its losses were counted anew each time: it never had
/// a turn, and got `SQLITE_SCHEMA` in the end.
#[test]
fn a_schema_change_that_loses_is_run_again_like_any_statement() {
    for (losses, expected) in [(60, Ok(())), (101, Err(BUSY_SNAPSHOT))] {
        let (directory, [mut a]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (0)");
        let mut writers: Vec<_> = std::iter::repeat_with(|| open(&directory)).take(losses).collect();
        for writer in &writers {
            let write = "PRAGMA synchronous = OFF; BEGIN; INSERT INTO t VALUES (1)";
            writer.execute_batch(write).expect("writes");
        }
        // One of them commits before each attempt does.
        let hook = move || {
            if let Some(writer) = writers.pop() {
                writer.execute_batch("COMMIT").expect("is first");
            }
            false
        };
        a.commit_hook(Some(hook)).expect("is a hook");
        let created = a.execute_batch("CREATE INDEX tx ON t(x)");
        let code = |error: Error| error.sqlite_error().expect("an error of SQLite's").extended_code;
        assert_eq!(created.map_err(code), expected, "{losses} losses");
    }
}

/// SQLite prepares it again 50 times, and on a busy machine the schema was another each time.
#[test]
fn a_statement_that_is_late_for_each_schema_is_let_pass() {
    let (_directory, [mut a, changer]) = connections("CREATE TABLE t(x)");
    let (ask, asked) = mpsc::sync_channel(0);
    let (tell, told) = mpsc::channel();
    let changer = std::thread::spawn(move || {
        for number in asked {
            let change = format!("CREATE TABLE u{number}(x)");
            // Nobody waits for the last one.
            let _ = tell.send(changer.execute_batch(&change));
        }
    });
    // Whenever it is prepared the schema changes, if that is not held up.
    let (mut changes, mut is_held_up) = (0, false);
    let hook = move |context: AuthContext<'_>| {
        if matches!(context.action, AuthAction::Insert { table_name: "t" }) && !is_held_up {
            changes += 1;
            ask.send(changes).expect("it is there");
            match told.recv_timeout(Duration::from_millis(50)) {
                Ok(changed) => changed.expect("is no conflict"),
                Err(_) => is_held_up = true,
            }
        }
        Authorization::Allow
    };
    a.authorizer(Some(hook)).expect("is a hook");
    a.execute("INSERT INTO t VALUES (1)", []).expect("gets through");
    a.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).expect("is no hook");
    changer.join().expect("ends");
    assert_eq!(number(&a, "SELECT x FROM t"), 1);
}

/// `change` is run when the connection commits for the first time, and before that takes place.
fn before_the_first_commit(connection: &mut Connection, change: impl FnOnce() + Send + 'static) {
    let mut change = Some(change);
    let hook = move || {
        if let Some(change) = change.take() {
            change();
        }
        false
    };
    connection.commit_hook(Some(hook)).expect("is a hook");
}

/// It took place twice in the database that had committed.
#[test]
fn a_statement_that_one_of_two_databases_has_committed_is_not_run_again() {
    let (directory, [mut a]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (0)");
    let second = format!("fulmar:{}/second", directory.path().display());
    let b = Connection::open(&second).expect("opens");
    b.execute_batch("CREATE TABLE u(x); INSERT INTO u VALUES (0)").expect("sets up");
    a.execute_batch(&format!(
        "ATTACH '{second}' AS second;
         CREATE TEMP TRIGGER both AFTER UPDATE ON main.t BEGIN UPDATE u SET x = x + 1; END"
    ))
    .expect("sets up");
    before_the_first_commit(&mut a, move || {
        b.execute("UPDATE u SET x = x + 10", []).expect("is first");
    });
    assert_eq!(failure(a.execute("UPDATE t SET x = x + 1", [])).0, BUSY_SNAPSHOT);
    assert_eq!((number(&a, "SELECT x FROM t"), number(&a, "SELECT x FROM u")), (1, 10));
}

/// An interrupt was forgotten when the statement began again.
#[test]
fn a_statement_that_is_interrupted_is_not_run_again() {
    let (_directory, [mut a, b]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (0)");
    let interrupt = a.get_interrupt_handle();
    before_the_first_commit(&mut a, move || {
        b.execute("UPDATE t SET x = x + 10", []).expect("is first");
        interrupt.interrupt();
    });
    assert_eq!(failure(a.execute("UPDATE t SET x = x + 1", [])).0, BUSY_SNAPSHOT);
    assert_eq!(number(&a, "SELECT x FROM t"), 10);
}

#[test]
fn exclusive_transactions_are_alone() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x)");
    b.busy_timeout(Duration::ZERO).expect("no waiting");
    a.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t VALUES (1)").expect("begins");
    let (code, message) = failure(b.execute("INSERT INTO t VALUES (2)", []));
    assert_eq!(code & 0xff, ErrorCode::DatabaseBusy as i32 + 2, "{message}");
    assert_eq!(number(&b, "SELECT count(*) FROM t"), 0, "readers go on");
    a.execute_batch("COMMIT").expect("commits");
    b.execute("INSERT INTO t VALUES (2)", []).expect("writes");
}

/// Who was reading when it began to be alone had not seen what others had committed since, and was told nothing.
#[test]
fn who_is_alone_has_read_nothing_that_is_old() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)");
    let mut reading = a.prepare("SELECT x FROM t").expect("compiles");
    let mut rows = reading.query([]).expect("begins");
    rows.next().expect("reads").expect("a row");
    a.execute_batch("BEGIN EXCLUSIVE; COMMIT").expect("nobody has committed since");
    b.execute("INSERT INTO t VALUES (3)", []).expect("nobody is alone");
    assert_eq!(failure(a.execute_batch("BEGIN EXCLUSIVE")).0, BUSY_SNAPSHOT);
    b.execute("INSERT INTO t VALUES (4)", []).expect("nobody is alone");
    drop(rows);
    a.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t SELECT count(*) FROM t; COMMIT")
        .expect("it has read anew");
    assert_eq!(number(&b, "SELECT max(x) FROM t"), 4);
}

#[test]
fn increments_of_one_row_are_never_lost() {
    let (directory, [a]) = connections("CREATE TABLE t(k PRIMARY KEY, x); INSERT INTO t VALUES (1, 0)");
    let (threads, each) = (8, 50);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let c = open(&directory);
                for _ in 0..each {
                    c.execute("UPDATE t SET x = x + 1 WHERE k = 1", []).expect("retries inside");
                }
            });
        }
    });
    assert_eq!(number(&a, "SELECT x FROM t"), threads * each);
}

#[test]
fn transfers_keep_the_sum() {
    let (directory, [a]) = connections(
        "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INT NOT NULL);
         INSERT INTO account VALUES (1, 100), (2, 100), (3, 100), (4, 100)",
    );
    let conflicts = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_i64 {
            let (directory, conflicts) = (&directory, &conflicts);
            scope.spawn(move || {
                let c = open(directory);
                for i in 0..60 {
                    let (from, to) = (1 + (thread + i) % 4, 1 + (thread * 3 + i * 7 + 1) % 4);
                    let transfer = format!(
                        "BEGIN; UPDATE account SET balance = balance - 1 WHERE id = {from};
                         UPDATE account SET balance = balance + 1 WHERE id = {to}; COMMIT"
                    );
                    while let Err(error) = c.execute_batch(&transfer) {
                        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(number(&c, "SELECT sum(balance) FROM account"), 400);
                }
            });
        }
    });
    assert_eq!(number(&a, "SELECT sum(balance) FROM account"), 400);
}

#[test]
fn data_version_tells_of_others() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x)");
    let before = number(&a, "PRAGMA data_version");
    a.execute("INSERT INTO t VALUES (1)", []).expect("writes");
    assert_eq!(number(&a, "PRAGMA data_version"), before);
    b.execute("INSERT INTO t VALUES (2)", []).expect("writes");
    assert_ne!(number(&a, "PRAGMA data_version"), before);
}

#[test]
fn read_only_connections_do_not_write() {
    let (directory, [_a]) = connections("CREATE TABLE t(x)");
    let name = format!("fulmar:{}/db?mode=ro", directory.path().display());
    let b = Connection::open(name).expect("opens");
    assert_eq!(number(&b, "SELECT count(*) FROM t"), 0);
    assert_eq!(failure(b.execute("INSERT INTO t VALUES (1)", [])).0 & 0xff, 8);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let missing = format!("fulmar:{}/missing", directory.path().display());
    let (code, message) = failure(Connection::open_with_flags(missing, flags));
    assert_eq!(code, 14);
    assert!(message.contains("missing: no such database"), "{message}");
}
