//! SQLite's result codes, and which of them each of our errors becomes.

use fulmar_dbt::Error;
use std::ffi::c_int;
use std::io::ErrorKind;

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;
pub(crate) const INTERNAL: c_int = 2;
pub(crate) const BUSY: c_int = 5;
pub(crate) const BUSY_SNAPSHOT: c_int = BUSY | (2 << 8);
pub(crate) const NOMEM: c_int = 7;
pub(crate) const READONLY: c_int = 8;
pub(crate) const INTERRUPT: c_int = 9;
pub(crate) const IOERR: c_int = 10;
pub(crate) const CORRUPT: c_int = 11;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
pub(crate) const SCHEMA_CHANGED: c_int = 17;
pub(crate) const TOOBIG: c_int = 18;
pub(crate) const MISUSE: c_int = 21;
pub(crate) const NOTADB: c_int = 26;
pub(crate) const DONE: c_int = 101;

/// An error as SQLite reports it: a result code and what `sqlite3_errmsg` says.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: c_int, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Conflict => {
                return Self::new(
                    BUSY_SNAPSHOT,
                    "conflict: since this transaction began another one has changed a row or the schema that it depends \
                     on, or a server has lost its part of it; it was rolled back, and retrying it from its BEGIN is safe",
                );
            }
            Error::SnapshotGone | Error::Excluded => BUSY_SNAPSHOT,
            // SQLite prepares the statement again.
            Error::Unexpected => SCHEMA_CHANGED,
            // Not SQLITE_BUSY: a busy handler would wait for a process that may run for days.
            Error::Held { .. } => CANTOPEN,
            Error::Format { .. } => NOTADB,
            Error::Corrupt { .. } => CORRUPT,
            Error::TooLarge => TOOBIG,
            Error::Io { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => FULL,
                ErrorKind::FileTooLarge => TOOBIG,
                ErrorKind::Interrupted => INTERRUPT,
                ErrorKind::PermissionDenied
                | ErrorKind::ReadOnlyFilesystem
                | ErrorKind::NotFound
                | ErrorKind::NotADirectory => CANTOPEN,
                _ => IOERR,
            },
        };
        Self::new(code, error.to_string())
    }
}
