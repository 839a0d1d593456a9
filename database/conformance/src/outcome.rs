//! What one statement did, as far as a program can see.

use std::fmt;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};

/// A column of a result row, compared by type and by bits (so that 0.0 and -0.0 differ).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// The bits of a double.
    Real(u64),
    /// Text, which SQLite does not promise to be UTF-8.
    Text(Vec<u8>),
    /// A blob.
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(n) => Self::Integer(n),
            ValueRef::Real(d) => Self::Real(d.to_bits()),
            ValueRef::Text(text) => Self::Text(text.to_vec()),
            ValueRef::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough to recognise a long value by.
        const SHOWN: usize = 60;
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(n) => write!(f, "{n}"),
            Self::Real(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Text(text) if text.len() <= SHOWN => write!(f, "'{}'", text.escape_ascii()),
            Self::Blob(blob) if blob.len() <= SHOWN => write!(f, "x'{}'", blob.escape_ascii()),
            Self::Text(text) => write!(f, "'{}…' of {}", text[..SHOWN].escape_ascii(), text.len()),
            Self::Blob(blob) => write!(f, "x'{}…' of {}", blob[..SHOWN].escape_ascii(), blob.len()),
        }
    }
}

/// A result row.
pub type Row = Vec<Value>;

/// An SQLite error: its extended code and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The extended result code.
    pub code: i32,
    /// The text of `sqlite3_errmsg`.
    pub message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::SqliteFailure(code, message) => {
                Self { code: code.extended_code, message: message.unwrap_or_default() }
            }
            Error::SqlInputError { error, msg, .. } => Self { code: error.extended_code, message: msg },
            other => Self { code: -1, message: other.to_string() },
        }
    }
}

/// Everything a program can observe after a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Names of the result columns.
    pub columns: Vec<String>,
    /// The rows, in the order in which they came; those before an error included.
    pub rows: Vec<Row>,
    /// The error that ended the statement.
    pub failure: Option<Failure>,
    /// `sqlite3_changes64`.
    pub changes: u64,
    /// `sqlite3_total_changes64`.
    pub total_changes: u64,
    /// `sqlite3_last_insert_rowid`.
    pub last_insert_rowid: i64,
    /// `sqlite3_get_autocommit`.
    pub autocommit: bool,
}

impl Outcome {
    /// Whether the statement ran to its end.
    #[must_use]
    pub const fn succeeded(&self) -> bool {
        self.failure.is_none()
    }
}

/// Runs one statement and collects all that can be seen of it.
pub fn run(connection: &Connection, sql: &str) -> Outcome {
    let mut outcome = observe(connection, sql, &mut |_| {});
    // Fulmar commits before the first row of RETURNING, so a deferred foreign key fails there and not behind the rows.
    let is_returning = sql.to_ascii_uppercase().contains("RETURNING");
    if is_returning && outcome.failure.as_ref().is_some_and(|failure| failure.code == FOREIGN_KEY) {
        outcome.rows.clear();
    }
    outcome
}

/// `SQLITE_CONSTRAINT_FOREIGNKEY`
const FOREIGN_KEY: i32 = 787;

/// Runs `query` and, when it has returned `rows` rows, `change` on the same connection. What `change` did is missing if
/// the query does not return so many.
pub fn run_during(
    connection: &Connection,
    query: &str,
    rows: usize,
    change: &str,
) -> (Outcome, Option<Outcome>) {
    let mut inner = None;
    let outer = observe(connection, query, &mut |returned| {
        if returned == rows {
            inner = Some(run(connection, change));
        }
    });
    (outer, inner)
}

/// Runs a statement, and calls `after_row` with the number of rows so far after each.
fn observe(connection: &Connection, sql: &str, after_row: &mut dyn FnMut(usize)) -> Outcome {
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    let failure = step(connection, sql, &mut columns, &mut rows, after_row).err().map(Failure::from);
    Outcome {
        columns,
        rows,
        failure,
        changes: connection.changes(),
        total_changes: connection.total_changes(),
        last_insert_rowid: connection.last_insert_rowid(),
        autocommit: connection.is_autocommit(),
    }
}

fn step(
    connection: &Connection,
    sql: &str,
    columns: &mut Vec<String>,
    rows: &mut Vec<Row>,
    after_row: &mut dyn FnMut(usize),
) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    columns.extend(statement.column_names().map(str::to_owned));
    let width = statement.column_count();
    let mut cursor = statement.query([])?;
    while let Some(row) = cursor.next()? {
        rows.push((0..width).map(|i| row.get_ref(i).map(Value::from)).collect::<Result<_, _>>()?);
        after_row(rows.len());
    }
    Ok(())
}

/// Runs a query that must succeed.
///
/// # Errors
/// The failure of the query.
pub fn rows(connection: &Connection, sql: &str) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    step(connection, sql, &mut Vec::new(), &mut rows, &mut |_| {})?;
    Ok(rows)
}
