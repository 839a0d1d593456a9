//! A process that forks with databases open. A test binary of its own, since a child has one thread only.

#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_sql as _;
use rusqlite::{Connection, ErrorCode, Result};

fn count(connection: &Connection) -> Result<i64> {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

/// What a child process finds: one bit for each thing that is as it should be.
fn child(idle: Connection, writing: Connection, name: &str) -> i32 {
    let code = |result: Result<()>| result.err().and_then(|error| error.sqlite_error_code());
    // The parent gives the database to a server.
    let reads = count(&idle) == Ok(1);
    let commits = code(writing.execute_batch("COMMIT")) == Some(ErrorCode::ApiMisuse);
    drop((idle, writing));
    let opens = Connection::open(name).and_then(|own| {
        own.execute_batch("INSERT INTO t VALUES (3)")?;
        count(&own)
    });
    i32::from(reads) << 2 | i32::from(commits) << 1 | i32::from(opens == Ok(2))
}

#[test]
fn a_child_opens_its_own_connection_and_leaves_its_parents_alone() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("fulmar:{}/db", directory.path().display());
    let open = || Connection::open(&name).unwrap();
    let connection = open();
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    let writing = open();
    writing.execute_batch("BEGIN; INSERT INTO t VALUES (2)").unwrap();
    // SAFETY: the child uses no thread but its own, and ends without running what is registered for its end.
    match unsafe { libc::fork() } {
        0 => {
            let found = child(connection, writing, &name);
            // SAFETY: ends the process.
            unsafe { libc::_exit(found) };
        }
        process => {
            let mut status = 0;
            // SAFETY: a child of this process, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
            assert_eq!(libc::WEXITSTATUS(status), 0b111, "status {status:x}");
            writing.execute_batch("COMMIT").unwrap();
            assert_eq!(count(&connection).unwrap(), 3);
            drop((connection, writing));
            assert_eq!(count(&open()).unwrap(), 3);
        }
    }
}
