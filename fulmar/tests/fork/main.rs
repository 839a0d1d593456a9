//! A process that forks with databases open. A test binary of its own, since a child has one thread only; and one test after
//! the other, so that no child is forked while another thread holds a lock.

#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

mod locks;
mod moving;
mod servers;
mod services;
mod unique;

use fulmar_sql as _;
use rusqlite::{Connection, ErrorCode, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a child may take that might wait for ever, in seconds. Then the system ends it.
const PATIENCE: u32 = 60;

/// Waits until no other test runs.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something in a child process, which ends with the status that it answers, or with 99 if it panics.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child uses no thread but its own, and ends without running what is registered for its end.
    match unsafe { libc::fork() } {
        0 => {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            // SAFETY: ends the process.
            unsafe { libc::_exit(status) };
        }
        process => process,
    }
}

/// With which status a child has ended.
fn wait(process: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    assert!(libc::WIFEXITED(status), "status {status:x}");
    libc::WEXITSTATUS(status)
}

fn count(connection: &Connection) -> Result<i64> {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

/// What a child process finds: one bit for each thing that is as it should be.
fn child(idle: Connection, writing: Connection, name: &str) -> i32 {
    let code = |result: Result<()>| result.err().and_then(|error| error.sqlite_error_code());
    // An embedded one, the parent gives to a server.
    let reads = count(&idle) == Ok(1);
    let commits = code(writing.execute_batch("COMMIT")) == Some(ErrorCode::ApiMisuse);
    drop((idle, writing));
    let opens = Connection::open(name).and_then(|own| {
        own.execute_batch("INSERT INTO t VALUES (3)")?;
        count(&own)
    });
    i32::from(reads) << 2 | i32::from(commits) << 1 | i32::from(opens == Ok(2))
}

/// A child opens a connection of its own, and those of its parent go on, one of them in the midst of a transaction.
fn children_leave_their_parents_alone(name: &str) {
    let open = || Connection::open(name).unwrap();
    let connection = open();
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    let writing = open();
    writing.execute_batch("BEGIN; INSERT INTO t VALUES (2)").unwrap();
    let handed = (connection, writing);
    // The child has copies of its own of both.
    let process = fork(|| {
        // SAFETY: each process has its own copy, and the child ends without dropping this one.
        let (connection, writing) = unsafe { std::ptr::read(&raw const handed) };
        child(connection, writing, name)
    });
    assert_eq!(wait(process), 0b111);
    let (connection, writing) = handed;
    writing.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&connection).unwrap(), 3);
    drop((connection, writing));
    assert_eq!(count(&open()).unwrap(), 3);
}

#[test]
fn a_child_opens_its_own_connection_and_leaves_its_parents_alone() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    children_leave_their_parents_alone(&format!("fulmar:{}/db", directory.path().display()));
}
