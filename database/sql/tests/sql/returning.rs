//! Statements that change rows and return some: what is returned has been committed, and nothing is told by
//! `sqlite3_reset` or `sqlite3_finalize` alone. Through the C interface, as drivers use it that ignore what those say.

use crate::concurrency::{BUSY_SNAPSHOT, connections, number, open};
use crate::pair::Pair;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ErrorCode, MAIN_DB, ffi};
use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A statement of the C interface. What its end says is ignored.
struct Statement<'c> {
    raw: *mut ffi::sqlite3_stmt,
    _connection: &'c Connection,
}

#[expect(unsafe_code, reason = "the C interface")]
impl<'c> Statement<'c> {
    fn new(connection: &'c Connection, sql: &str) -> Self {
        let (text, mut raw) = (CString::new(sql).expect("has no NUL"), std::ptr::null_mut());
        // SAFETY: the connection is open for as long as the statement is, and the text is terminated.
        let code = unsafe {
            let handle = connection.handle();
            ffi::sqlite3_prepare_v2(handle, text.as_ptr(), -1, &raw mut raw, std::ptr::null_mut())
        };
        assert_eq!(code, ffi::SQLITE_OK, "{sql}");
        Self { raw, _connection: connection }
    }

    /// The extended code of one step.
    fn step(&self) -> c_int {
        // SAFETY: the statement is prepared.
        let code = unsafe { ffi::sqlite3_step(self.raw) };
        if matches!(code, ffi::SQLITE_ROW | ffi::SQLITE_DONE) {
            return code;
        }
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_extended_errcode(ffi::sqlite3_db_handle(self.raw)) }
    }

    /// The first column of the row it stands on.
    fn value(&self) -> i64 {
        // SAFETY: the statement is prepared.
        unsafe { ffi::sqlite3_column_int64(self.raw, 0) }
    }

    fn reset(&self) {
        // SAFETY: the statement is prepared.
        unsafe { ffi::sqlite3_reset(self.raw) };
    }

    fn is_read_only(&self) -> bool {
        // SAFETY: the statement is prepared.
        unsafe { ffi::sqlite3_stmt_readonly(self.raw) != 0 }
    }
}

#[expect(unsafe_code, reason = "the C interface")]
impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is prepared, and not used again.
        unsafe { ffi::sqlite3_finalize(self.raw) };
    }
}

/// The number in the first row, if there is one; the rest is not asked for.
fn first(connection: &Connection, sql: &str) -> Option<i64> {
    let statement = Statement::new(connection, sql);
    match statement.step() {
        ffi::SQLITE_ROW => Some(statement.value()),
        ffi::SQLITE_DONE => None,
        code => panic!("{sql}: {code}"),
    }
}

/// Gives `connection` a function `meanwhile()` that is 0 and has, when called for the first time, another change `x` of `t`.
fn interfere(connection: &Connection, other: Connection) {
    let other = RefCell::new(Some(other));
    let meanwhile = move |_: &rusqlite::functions::Context<'_>| {
        if let Some(other) = other.take() {
            other.execute_batch("UPDATE t SET x = x + 100")?;
        }
        Ok(0)
    };
    connection
        .create_scalar_function("meanwhile", 0, FunctionFlags::SQLITE_UTF8, meanwhile)
        .expect("is a function");
}

#[test]
fn jobs_are_claimed_once() {
    let (directory, [a]) = connections(
        "CREATE TABLE job(id INTEGER PRIMARY KEY, owner);
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         INSERT INTO job(id) SELECT i FROM n",
    );
    let claims = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (directory, claims) = (&directory, &claims);
            scope.spawn(move || {
                let c = open(directory);
                let claim = format!(
                    "UPDATE job SET owner = {worker}
                     WHERE id = (SELECT id FROM job WHERE owner IS NULL ORDER BY id LIMIT 1) RETURNING id"
                );
                while first(&c, &claim).is_some() {
                    claims.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(claims.into_inner(), 300);
    assert_eq!(number(&a, "SELECT count(*) FROM job WHERE owner IS NULL"), 0);
}

#[test]
fn a_row_that_was_returned_has_been_committed() {
    for (sql, value, expected) in [
        ("INSERT INTO t VALUES (3, 3), (4, 4) RETURNING k", 3, 10),
        ("INSERT INTO t SELECT k + 2, x + 2 FROM t RETURNING k", 3, 10),
        ("INSERT INTO t VALUES (2, 0) ON CONFLICT DO UPDATE SET x = 5 RETURNING x", 5, 6),
        ("REPLACE INTO t VALUES (1, 7) RETURNING x", 7, 9),
        ("UPDATE t SET x = x + 1 RETURNING x", 2, 5),
        ("DELETE FROM t RETURNING k", 1, 0),
    ] {
        for table in ["t(k INTEGER PRIMARY KEY, x)", "t(k INT PRIMARY KEY, x) WITHOUT ROWID"] {
            let setup = format!("CREATE TABLE {table}; INSERT INTO t VALUES (1, 1), (2, 2)");
            let (_directory, [a, b]) = connections(&setup);
            let statement = Statement::new(&a, sql);
            assert_eq!((statement.step(), statement.value()), (ffi::SQLITE_ROW, value), "{sql}");
            assert_eq!(number(&b, "SELECT coalesce(sum(x), 0) FROM t"), expected, "{sql}");
            assert!(!statement.is_read_only());
            b.execute_batch("UPDATE t SET x = 0").expect("is not blocked");
            drop(statement);
            assert_eq!(number(&a, "SELECT coalesce(sum(x), 0) FROM t"), 0, "{sql}");
        }
    }
}

#[test]
fn a_statement_that_loses_returns_what_it_did_when_it_ran_again() {
    for left_open in [false, true] {
        let (directory, [a]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (1)");
        interfere(&a, open(&directory));
        let earlier = Statement::new(&a, "INSERT INTO t VALUES (2), (3) RETURNING x");
        assert_eq!(earlier.step(), ffi::SQLITE_ROW);
        if !left_open {
            earlier.reset();
        }
        assert_eq!(first(&a, "UPDATE t SET x = x + 10 + meanwhile() RETURNING x"), Some(111));
        assert_eq!(number(&a, "SELECT sum(x) FROM t"), 336, "left open: {left_open}");
    }
}

#[test]
fn a_loss_that_cannot_be_retried_returns_no_row() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)");
    let reads = Statement::new(&a, "SELECT x FROM t");
    assert_eq!(reads.step(), ffi::SQLITE_ROW);
    b.execute_batch("UPDATE t SET x = x + 10").expect("writes");
    let writes = Statement::new(&a, "UPDATE t SET x = x + 100 RETURNING x");
    assert_eq!(writes.step(), BUSY_SNAPSHOT);
    assert_eq!(a.changes(), 0);
    assert_eq!(reads.step(), ffi::SQLITE_ROW, "the reader goes on");
    drop((reads, writes));
    assert_eq!(number(&a, "SELECT sum(x) FROM t"), 23);
}

#[test]
fn constraints_and_hooks_speak_before_the_first_row() {
    let (_directory, [mut a, b]) = connections(
        "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(p REFERENCES p(id) DEFERRABLE INITIALLY DEFERRED, q REFERENCES p(id))",
    );
    a.execute_batch("PRAGMA foreign_keys = ON").expect("is a PRAGMA");
    for sql in ["INSERT INTO c(p) VALUES (1) RETURNING 1", "INSERT INTO c(q) VALUES (1) RETURNING 1"] {
        assert_eq!(Statement::new(&a, sql).step(), ffi::SQLITE_CONSTRAINT_FOREIGNKEY, "{sql}");
        assert_eq!((a.changes(), number(&b, "SELECT count(*) FROM c")), (0, 0));
    }
    // The first commit is refused.
    let commits = std::sync::Arc::new(AtomicI64::new(0));
    let counted = commits.clone();
    let hook = move || counted.fetch_add(1, Ordering::Relaxed) == 0;
    a.commit_hook(Some(hook)).expect("is a hook");
    let insert = Statement::new(&a, "INSERT INTO p VALUES (1) RETURNING id");
    assert_eq!(insert.step(), ffi::SQLITE_CONSTRAINT_COMMITHOOK);
    assert_eq!(number(&b, "SELECT count(*) FROM p"), 0);
    assert_eq!((insert.step(), insert.step()), (ffi::SQLITE_ROW, ffi::SQLITE_DONE));
    assert_eq!(commits.load(Ordering::Relaxed), 2);
}

#[test]
fn inside_a_transaction_nothing_is_committed_early() {
    for (begin, end) in [("BEGIN", "ROLLBACK"), ("SAVEPOINT s", "ROLLBACK TO s; RELEASE s")] {
        let (_directory, [a, b]) = connections("CREATE TABLE t(x)");
        a.execute_batch(begin).expect("begins");
        assert_eq!(first(&a, "INSERT INTO t VALUES (1) RETURNING x"), Some(1));
        assert_eq!(number(&b, "SELECT count(*) FROM t"), 0);
        a.execute_batch(end).expect("ends");
        assert_eq!(number(&a, "SELECT count(*) FROM t"), 0);
    }
}

#[test]
fn triggers_and_temporary_tables_are_part_of_it() {
    let (_directory, [a, b]) = connections(
        "CREATE TABLE t(x); CREATE TABLE log(id INTEGER PRIMARY KEY AUTOINCREMENT, x);
         CREATE TRIGGER tl AFTER INSERT ON t BEGIN INSERT INTO log(x) VALUES (new.x); END;
         CREATE TEMP TABLE own(x);
         CREATE TEMP TRIGGER tt AFTER INSERT ON t BEGIN INSERT INTO own VALUES (new.x); END",
    );
    let insert = Statement::new(&a, "INSERT INTO t VALUES (1), (2) RETURNING x");
    assert_eq!(insert.step(), ffi::SQLITE_ROW);
    assert_eq!(number(&b, "SELECT sum(log.x) + sum(seq) / 2 FROM log, sqlite_sequence"), 5);
    assert_eq!(number(&a, "SELECT sum(x) FROM temp.own"), 3);
    // Another statement, and a transaction, before the first one's last row.
    a.execute_batch("BEGIN; INSERT INTO t VALUES (3)").expect("writes");
    assert_eq!((insert.step(), insert.value(), insert.step()), (ffi::SQLITE_ROW, 2, ffi::SQLITE_DONE));
    assert_eq!(number(&b, "SELECT count(*) FROM t"), 2);
    a.execute_batch("COMMIT").expect("commits");
    assert_eq!(number(&b, "SELECT count(*) FROM log"), 3);
}

#[test]
fn an_interrupt_after_the_first_row_undoes_nothing() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x)");
    let insert = Statement::new(&a, "INSERT INTO t VALUES (1), (2), (3) RETURNING x");
    assert_eq!(insert.step(), ffi::SQLITE_ROW);
    a.execute_batch("BEGIN; INSERT INTO t VALUES (4)").expect("writes");
    a.get_interrupt_handle().interrupt();
    while insert.step() == ffi::SQLITE_ROW {}
    drop(insert);
    a.execute_batch("COMMIT").expect("the transaction is another one");
    assert_eq!(number(&b, "SELECT sum(x) FROM t"), 10);
}

#[test]
fn what_returns_a_count_has_been_committed() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x)");
    a.execute_batch("PRAGMA count_changes = ON").expect("is a PRAGMA");
    for (sql, count) in
        [("INSERT INTO t VALUES (1), (2)", 2), ("UPDATE t SET x = 3 WHERE x = 1", 1), ("DELETE FROM t", 2)]
    {
        let before = number(&b, "SELECT coalesce(sum(x), 0) FROM t");
        let statement = Statement::new(&a, sql);
        assert_eq!((statement.step(), statement.value()), (ffi::SQLITE_ROW, count), "{sql}");
        assert_ne!(number(&b, "SELECT coalesce(sum(x), 0) FROM t"), before, "{sql}");
    }
}

#[test]
fn rows_of_virtual_tables_are_committed_too() {
    let (_directory, [a, b]) = connections("CREATE VIRTUAL TABLE f USING fts5(words)");
    let insert = Statement::new(&a, "INSERT INTO f VALUES ('a storm petrel') RETURNING rowid");
    assert_eq!(insert.step(), ffi::SQLITE_ROW);
    assert_eq!(number(&b, "SELECT count(*) FROM f WHERE f MATCH 'petrel'"), 1);
}

#[test]
fn statements_left_open_put_off_no_commit() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (0)");
    for (x, sql) in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA wal_checkpoint",
        "EXPLAIN UPDATE t SET x = 1",
        "EXPLAIN QUERY PLAN DELETE FROM t WHERE x < 0",
        "INSERT INTO t VALUES (-1), (1) RETURNING x",
    ]
    .into_iter()
    .enumerate()
    {
        let open = Statement::new(&a, sql);
        assert_eq!(open.step(), ffi::SQLITE_ROW, "{sql}");
        assert!(!open.is_read_only(), "{sql}");
        a.execute("UPDATE t SET x = ?", [x + 100]).expect("writes");
        assert_eq!(number(&b, "SELECT max(x) FROM t"), x as i64 + 100, "{sql}");
        assert_eq!(first(&a, "UPDATE t SET x = x + 100 RETURNING x"), Some(x as i64 + 200), "{sql}");
        assert_eq!(number(&b, "SELECT max(x) FROM t"), x as i64 + 200, "{sql}");
        while open.step() == ffi::SQLITE_ROW {}
    }
}

#[test]
fn what_a_function_does_inside_a_statement_is_part_of_it() {
    let pair = Pair::new();
    for connection in [&pair.fulmar, &pair.stock] {
        let inner = |context: &rusqlite::functions::Context<'_>| {
            #[expect(
                unsafe_code,
                reason = "rusqlite cannot know that the connection is not used at the same time"
            )]
            // SAFETY: used in this call only.
            let connection = unsafe { context.get_connection()? };
            Ok(first(&connection, "INSERT INTO log VALUES (1) RETURNING x"))
        };
        connection
            .create_scalar_function("logs", 0, FunctionFlags::SQLITE_UTF8, inner)
            .expect("is a function");
    }
    pair.script(
        "CREATE TABLE t(x UNIQUE);
         CREATE TABLE log(x);
         INSERT INTO t VALUES (1), (2);
         UPDATE t SET x = 5 + logs();
         SELECT count(*) FROM log;
         UPDATE t SET x = x + 5 * logs() RETURNING x;
         SELECT count(*) FROM log;
         SELECT logs();
         SELECT count(*) FROM log;",
    );
}

#[test]
fn counts_of_changes_are_sqlites_at_every_step() {
    let pair = Pair::new();
    let told = |connection: &Connection| {
        connection.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, x)").expect("a table");
        let mut told = Vec::new();
        for sql in [
            "INSERT INTO t(x) VALUES (1), (2), (3) RETURNING k",
            "UPDATE t SET x = x + 1 WHERE k < 3 RETURNING x",
            "UPDATE t SET x = x + 1 WHERE k > 3 RETURNING x",
            "INSERT OR FAIL INTO t VALUES (7, 7), (1, 1) RETURNING k",
            "DELETE FROM t WHERE k = 1 RETURNING x",
        ] {
            let statement = Statement::new(connection, sql);
            for _ in 0..5 {
                told.push((
                    statement.step(),
                    connection.changes(),
                    connection.total_changes(),
                    connection.last_insert_rowid(),
                    connection.is_autocommit(),
                ));
            }
            statement.reset();
            told.push((0, connection.changes(), connection.total_changes(), 0, true));
        }
        told
    };
    assert_eq!(told(&pair.fulmar), told(&pair.stock));
    pair.script("SELECT * FROM t");
}

#[test]
fn a_blob_that_is_being_written_cannot_lose() {
    let (_directory, [a, b]) = connections("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(4))");
    b.busy_timeout(Duration::ZERO).expect("no waiting");
    let update = "UPDATE t SET x = x || x'07'";
    let mut blob = a.blob_open(MAIN_DB, "t", "x", 1, false).expect("opens");
    std::io::Write::write_all(&mut blob, &[1, 2]).expect("writes");
    let refused = b.execute(update, []).expect_err("it would make the other lose");
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert_eq!(number(&b, "SELECT hex(x) = '00000000' FROM t"), 1, "readers go on");
    drop(blob);
    b.execute(update, []).expect("nobody else writes");
    assert_eq!(number(&a, "SELECT hex(x) = '0102000007' FROM t"), 1);

    // In a transaction its COMMIT says whether it lost.
    a.execute_batch("BEGIN").expect("begins");
    let mut blob = a.blob_open(MAIN_DB, "t", "x", 1, false).expect("opens");
    std::io::Write::write_all(&mut blob, &[9]).expect("writes");
    drop(blob);
    b.execute(update, []).expect("is not blocked");
    let lost = a.execute_batch("COMMIT").expect_err("lost").sqlite_error().map(|error| error.extended_code);
    assert_eq!(lost, Some(BUSY_SNAPSHOT));
}
