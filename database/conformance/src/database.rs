//! Which database is tested, and how to open it.

use crate::server;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// The name of the database under test in directory `dir`; with `FULMAR_ON_SERVERS` set, of one on servers that this
/// process runs.
#[must_use]
pub fn under_test(dir: &Path) -> String {
    named(dir, "db")
}

/// As [`under_test`], for tests of several databases.
#[must_use]
pub(crate) fn named(dir: &Path, name: &str) -> String {
    match server::prefix(dir) {
        Some(prefix) => format!("{prefix}{name}"),
        None => format!("fulmar:{}", dir.join(name).display()),
    }
}

/// Opens `name`, waiting up to ten seconds wherever SQLite would wait for a lock.
///
/// # Errors
/// Whatever SQLite answers.
pub fn open(name: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(name, flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}
