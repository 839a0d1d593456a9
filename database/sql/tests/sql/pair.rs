//! The same statements on a Fulmar database and on an ordinary one of the same library.

use rusqlite::types::Value;
use rusqlite::{Connection, Error};

/// A Fulmar database and an in-memory one that must answer alike.
pub(crate) struct Pair {
    pub(crate) fulmar: Connection,
    pub(crate) stock: Connection,
    _directory: tempfile::TempDir,
}

/// What a statement does, as text: its rows, or the code and message of its error.
fn outcome(connection: &Connection, sql: &str) -> String {
    let run = || -> Result<Vec<Vec<Value>>, Error> {
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        statement.query_map([], |row| (0..columns).map(|i| row.get(i)).collect())?.collect()
    };
    match run() {
        Ok(rows) => {
            rows.iter().map(|row| format!("{row:?}\n")).collect::<String>()
                + &connection.changes().to_string()
        }
        Err(Error::SqliteFailure(code, message)) => format!("{}: {message:?}", code.extended_code),
        Err(other) => other.to_string(),
    }
}

impl Pair {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let name = format!("fulmar:{}/db", directory.path().display());
        let fulmar = Connection::open(name).expect("opens");
        // What the loss of power would do is tested elsewhere.
        fulmar.execute_batch("PRAGMA synchronous = OFF").expect("is a harmless PRAGMA");
        Self { fulmar, stock: Connection::open_in_memory().expect("opens"), _directory: directory }
    }

    /// Runs one statement on both, and says what both answered.
    pub(crate) fn same(&self, sql: &str) -> String {
        let (ours, theirs) = (outcome(&self.fulmar, sql), outcome(&self.stock, sql));
        assert_eq!(ours, theirs, "{sql}");
        ours
    }

    /// Runs statements, each on a line or ended by `;` and a line's end, on both; then checks both databases.
    pub(crate) fn script(&self, script: &str) {
        for sql in script.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()) {
            self.same(sql);
        }
        self.same("PRAGMA integrity_check");
        self.same("PRAGMA foreign_key_check");
    }
}
