//! What can go wrong between a file and a database.

use std::io;
use std::path::Path;

use rusqlite::ffi;

use crate::shell::statement::SqlError;
use crate::shell::{NameError, OpenError};

/// Why nothing, or not everything, was transferred.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// SQLite refused it.
    #[error("{place}: {message}")]
    Sql {
        /// The database, and the object in it if there is one to blame.
        place: String,
        /// SQLite's extended result code.
        code: i32,
        /// SQLite's own words.
        message: String,
    },
    /// The name of a database makes no sense.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused it.
    #[error("{name}: {error}")]
    File {
        /// As the user named it.
        name: String,
        /// What the system says.
        error: io::Error,
    },
    /// What was asked for would do harm, or is not what the user means.
    #[error("{0}")]
    Refused(String),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Whether what was asked for cannot be meant, whatever the world is like.
    pub(crate) const fn is_bad_usage(&self) -> bool {
        matches!(self, Self::Name(_))
    }

    /// For `map_err` on what concerns a file.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let name = path.display().to_string();
        move |error| Self::File { name, error }
    }

    /// Whether others have changed what this transaction changed.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Sql { code: ffi::SQLITE_BUSY_SNAPSHOT, .. })
    }
}

/// Says of an error of SQLite where it arose.
pub(super) trait At<T> {
    fn at(self, place: &str) -> Result<T>;
}

impl<T> At<T> for std::result::Result<T, SqlError> {
    fn at(self, place: &str) -> Result<T> {
        self.map_err(|error| Failure::Sql { place: place.into(), code: error.code, message: error.message })
    }
}

impl<T> At<T> for rusqlite::Result<T> {
    fn at(self, place: &str) -> Result<T> {
        self.map_err(|error| {
            let code = error.sqlite_error().map_or(ffi::SQLITE_ERROR, |error| error.extended_code);
            let message = match error {
                rusqlite::Error::SqliteFailure(_, Some(message)) => message,
                other => other.to_string(),
            };
            Failure::Sql { place: place.into(), code, message }
        })
    }
}
