//! The parts of the `fulmar` binary, each of which is one of its subcommands.

pub mod shell;

// Links SQLite on Fulmar's tree, whose symbols rusqlite calls.
use fulmar_sql as _;
