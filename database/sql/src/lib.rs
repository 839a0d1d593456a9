//! SQLite's query processor on Fulmar's tree.
//!
//! *Known as:* a storage backend (pager and B-tree layer) for SQLite.
//!
//! An application that uses SQLite goes on using it: the same C interface, parser, planner and virtual machine. What
//! changes is the layer below. SQLite keeps every table and index in a B-tree and reaches it through some eighty
//! functions of one file, btree.c; for a database whose name begins with `fulmar:` the forty-six of them that touch
//! data are answered here, on [`fulmar_dbt`]. Temporary, in-memory and ordinary databases keep SQLite's own B-tree, and
//! all kinds can be attached to one connection.
//!
//! ```text
//!   build.rs, build/    SQLite's amalgamation, from a crate, with its seams opened
//!   c/                  the functions taken: from SQLite's structures to plain values
//!   src/ffi             what C calls: from plain values to ours, and no panic across
//!   src/handle          one connection's view of a database: transaction, savepoints, meta values
//!   src/cursor          a place in a table or index
//!   src/key, record     an index entry as an order-preserving byte string
//!   src/registry        what the connections of one process share: the database, rowids, turns
//!   src/share           one directory's database in several processes
//!   src/name            `fulmar:PATH?cache=256MB&mode=rw`
//!   src/markers         an unmodified program's files, by `FULMAR_DATABASES`
//! ```
//!
//! What is guaranteed: a transaction reads one snapshot, and what it writes becomes visible to others all at once when
//! it commits, or never. Writers block neither readers nor other writers; of two that change the same row, the second
//! to commit gets `SQLITE_BUSY_SNAPSHOT` and is rolled back (a statement outside a transaction is run again instead).
//! Constraints hold whatever commits side by side. A panic becomes an error code before it reaches C.
//!
//! What is not: serializability (write skew is possible); and a commit of several attached databases is atomic in each of
//! them, not across them.
//!
//! The crate has no interface of its own but [`version()`]: linking it provides SQLite's symbols. From Rust, use
//! `rusqlite` with its feature `in_gecko` (which leaves the symbols to us):
//!
//! ```
//! use fulmar_sql as _; // links SQLite on Fulmar's tree
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let name = format!("fulmar:{}/birds", directory.path().display());
//! let connection = rusqlite::Connection::open(name)?; // such as "fulmar:/var/lib/app/birds"
//! connection.execute_batch("CREATE TABLE bird(name TEXT); INSERT INTO bird VALUES ('fulmar')")?;
//! let name: String = connection.query_row("SELECT name FROM bird", [], |row| row.get(0))?;
//! assert_eq!(name, "fulmar");
//! # Ok(())
//! # }
//! ```
#![allow(
    unsafe_code,
    reason = "C calls into this crate and hands it pointers; each such place argues its safety"
)]

mod codes;
mod cursor;
mod ffi;
mod fork;
mod handle;
mod key;
mod markers;
mod name;
mod record;
mod registry;
mod sequences;
mod share;
mod turns;
mod version;

pub use markers::{FileKind, file_kind};

use std::ffi::{CStr, c_char, c_int};

/// An operation of `sqlite3_file_control`, for a Fulmar database: how many times the connection has waited for servers, as
/// an `sqlite3_int64`. A single question counts one, and so do several that are asked at the same time.
pub const FCNTL_ROUND_TRIPS: c_int = 6_714_732;

unsafe extern "C" {
    fn sqlite3_libversion() -> *const c_char;
}

/// The version of SQLite that was compiled, such as `3.54.1`.
pub fn version() -> &'static str {
    // SAFETY: sqlite3_libversion takes nothing and returns a constant, terminated string.
    let version = unsafe { CStr::from_ptr(sqlite3_libversion()) };
    version.to_str().unwrap_or("unknown")
}

/// The code on the page is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sql.md")]
mod page {}
