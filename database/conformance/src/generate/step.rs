//! A step of a script.

use std::fmt;

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a statement.
    Sql(String),
    /// Runs a query, and a statement when it has returned some rows.
    During {
        /// The query.
        query: String,
        /// How many of its rows come first.
        rows: usize,
        /// The statement.
        change: String,
    },
    /// Attaches the second database.
    Attach,
    /// Closes and opens the databases.
    Reopen,
    /// Compares all contents, and checks both.
    Compare,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(sql) => f.write_str(sql),
            Self::During { query, rows, change } => write!(f, "{query} -- after {rows} rows: {change}"),
            Self::Attach => f.write_str("ATTACH … AS aux"),
            Self::Reopen => f.write_str("-- reopen"),
            Self::Compare => f.write_str("-- compare"),
        }
    }
}
