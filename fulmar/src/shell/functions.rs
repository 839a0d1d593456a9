//! The SQL functions and tables that SQLite's command line has beyond SQLite itself.
//!
//! Only a [`Shell`](super::Shell) has them: what reaches files must not be there for the SQL of other programs. For the
//! same reason a schema cannot use what reaches files (`SQLITE_DIRECTONLY`): a trigger in a database that somebody sent
//! must not read the files of who opens it.
//!
//! | file | registers |
//! | --- | --- |
//! | `decimal` | exact arithmetic on decimal numbers, and their order as a collation |
//! | `files`, `directory` | `readfile`, `writefile`, `lsmode`; the table `fsdir` |
//! | `hash` | `sha3`, `sha3_agg`, `sha3_query` |
//! | `pattern` | `regexp` and with it the operator `REGEXP`, `regexpi` |
//! | `series` | the table `generate_series` |

mod decimal;
mod directory;
mod files;
mod hash;
mod pattern;
mod series;
mod table;
mod value;

use std::io;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::statement::SqlError;

/// The same answer to the same arguments, whoever asks.
const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);

/// For statements only, not for a schema.
const DIRECT: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DIRECTONLY);

/// Gives a connection all of them.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    decimal::register(connection)?;
    directory::register(connection)?;
    files::register(connection)?;
    hash::register(connection)?;
    pattern::register(connection)?;
    series::register(connection)
}

/// Why a function or a table gives no answer.
#[derive(Debug, thiserror::Error)]
enum FunctionError {
    #[error("decimal_pow2() takes -{most} to {most}, not {exponent}")]
    Exponent { exponent: i64, most: u32 },
    #[error("wrong number of arguments to function writefile()")]
    WriteArguments,
    #[error("failed to create {kind}: {path}: {source}")]
    Create { kind: &'static str, path: String, source: io::Error },
    #[error("failed to write file: {path}: {source}")]
    Write { path: String, source: io::Error },
    #[error("cannot read file: {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("cannot read directory: {path}: {source}")]
    ReadDirectory { path: String, source: io::Error },
    #[error("cannot stat file: {path}: {source}")]
    Stat { path: String, source: io::Error },
    #[error("table function fsdir requires an argument")]
    NoPath,
    #[error("table function fsdir requires a non-NULL argument")]
    NullPath,
    #[error("SHA3 size should be one of: 224 256 384 512")]
    HashSize,
    #[error("error SQL statement [{sql}]: {source}")]
    Query { sql: String, source: SqlError },
    #[error("non-query: [{sql}]")]
    NotAQuery { sql: String },
    #[error("regular expression \"{pattern}\": {reason}")]
    Pattern { pattern: String, reason: String },
    #[error("first argument to \"generate_series()\" missing or unusable")]
    NoStart,
}

impl From<FunctionError> for rusqlite::Error {
    fn from(error: FunctionError) -> Self {
        // SQLite would be given nothing of a message with NUL, which names and patterns may have.
        Self::UserFunctionError(error.to_string().replace('\0', "\\0").into())
    }
}
