//! The drop-in `libsqlite3.so.0`.
//!
//! *Known as:* a drop-in replacement, an interposed shared library.
//!
//! A program that loads SQLite as a shared library gets SQLite on Fulmar instead when this library is found first:
//!
//! ```text
//! cargo xtask dropin
//! LD_LIBRARY_PATH=$PWD/target/release/dropin FULMAR_DATABASES='*.db' program
//! ```
//!
//! `FULMAR_DATABASES` says which of its databases are Fulmar's; see `database/sql/src/markers.rs`. A program that can
//! be told a name needs no variable: `fulmar:PATH` is always ours. Use an absolute `LD_LIBRARY_PATH`: with a relative
//! one, a program that changes its directory silently loads the system's library.
//!
//! This crate only collects [`fulmar_sql`] into a static library. `cargo xtask dropin` has the C compiler make
//! the shared one of it, with the name that the dynamic linker looks for and, by `exports.map`, the symbols that
//! `sqlite3.h` declares and no others; rustc by itself would hide C's symbols and export Rust's.
//!
//! ```text
//! $ LD_LIBRARY_PATH=$PWD/target/release/dropin python3
//! >>> import sqlite3
//! >>> sqlite3.connect("fulmar:birds").execute("SELECT sqlite_version()").fetchone()
//! ('3.54.1',)
//! ```
//!
//! What is guaranteed: the interface of `sqlite3.h`, all of it, under the name that Debian's programs load. What is not:
//! SQLite's internal functions (`sqlite3Xxx`), which Debian's library exports too; and that a program checks no version, as
//! Debian's `sqlite3` does, which refuses every library but its own.

use fulmar_sql as _;
