//! The parts of the `fulmar` binary, each of which is one of its subcommands.
//!
//! - [`shell`]: `fulmar sql`, a shell as people know it from `sqlite3`. Its core takes lines and writes to anything, so
//!   whole sessions are tested against golden files.
//! - [`mod@bench`]: `fulmar bench`, figures beside what people use today.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What `fulmar sql birds 'SELECT 1'` comes down to:
//! let connection = rusqlite::Connection::open("fulmar:birds")?;
//! let one: i64 = connection.query_row("SELECT 1", [], |row| row.get(0))?;
//! # assert_eq!(one, 1);
//! # Ok(())
//! # }
//! ```
//!
//! The library exists for the binary and its tests; nothing of it is promised to others.

pub mod bench;
pub mod shell;

// Links SQLite on Fulmar's tree, whose symbols rusqlite calls.
use fulmar_sql as _;
