//! Children that are forked while another thread of their parent holds its database, as it does while that moves to a server.

use crate::{PATIENCE, alone, count, fork, wait};
use rusqlite::{Connection, ErrorCode};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that makes a file `waits`, and starts a server when there is a file `go`, or after a while.
fn patient_program(folder: &Path) -> PathBuf {
    let program = folder.join("fulmar");
    let at = |name| folder.join(name).display().to_string();
    let script = format!(
        "#!/bin/sh\n: > {}\nn=0\nuntil [ -e {} ] || [ $n = 1000000 ]; do n=$((n+1)); done\nexec {} \"$@\"\n",
        at("waits"),
        at("go"),
        env!("CARGO_BIN_EXE_fulmar")
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_child_that_is_forked_while_its_database_moves_goes_on() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (waits, go) = (directory.path().join("waits"), directory.path().join("go"));
    // SAFETY: the other threads of this process wait for their turn.
    unsafe { std::env::set_var("FULMAR_PROGRAM", patient_program(directory.path())) };
    let name = format!("fulmar:{}/db", directory.path().display());
    let idle = Connection::open(&name).unwrap();
    idle.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    let reading = Connection::open(&name).unwrap();
    reading.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();

    let visitor = fork(|| i32::from(Connection::open(&name).and_then(|own| count(&own)).is_err()));
    while !waits.exists() {
        std::thread::yield_now();
    }
    let handed = (idle, reading);
    let child = fork(|| {
        // SAFETY: each process has its own copy, and the child ends without dropping this one. Whoever waits for ever is ended.
        let (idle, reading) = unsafe {
            libc::alarm(PATIENCE);
            std::ptr::read(&raw const handed)
        };
        // All of this the storage is not needed for.
        let one = idle.query_row("SELECT 1", [], |row| row.get(0)) == Ok(1);
        let limit = idle.execute_batch("PRAGMA busy_timeout = 5000").is_ok();
        let parents = count(&reading).is_err_and(|why| why.sqlite_error_code() == Some(ErrorCode::ApiMisuse));
        drop(reading);
        std::fs::write(&go, "").unwrap();
        let own = count(&idle) == Ok(1) && idle.execute_batch("INSERT INTO t VALUES (2)").is_ok();
        drop(idle);
        i32::from(one) << 3 | i32::from(parents) << 2 | i32::from(limit) << 1 | i32::from(own)
    });
    assert_eq!((wait(child), wait(visitor)), (0b1111, 0));
    let (idle, reading) = handed;
    assert_eq!((count(&idle), count(&reading)), (Ok(2), Ok(1)));
    // SAFETY: as above.
    unsafe { std::env::remove_var("FULMAR_PROGRAM") };
}
