//! Does SQL on Fulmar behave as SQL on SQLite does, among many connections and across crashes?
//!
//! *Known as:* compatibility tests, crash tests, fault injection, soak tests.
//!
//! Each kind of check is a module that the tests run for seconds and the `soak` binary for as long as it is told:
//!
//! - [`slt`]: the sqllogictest files of SQLite's authors.
//! - [`fuzz`]: random statements, each of which must do on Fulmar what it does on SQLite's own storage.
//! - [`transfers`]: threads move amounts between accounts; every snapshot must hold the same sum.
//! - [`kill`]: a process that commits is killed, again and again; what it acknowledged must be there, and whole.
//! - [`disk`]: power cuts and failing calls under a process that commits; the same must hold.
//! - [`chaos`]: real servers are killed, cut off, wiped, moved, while clients write and check.
//! - [`hostile`]: connections that mean no good, to real servers of databases, timestamps and locks, while a client goes on.
//! - [`memory`]: a process works on a database ten times larger than its cache, and takes no more memory for that.
//! - [`small`]: what small databases cost: time to open one, and what servers of many take while nobody asks for anything.
//!
//! ```
//! let directory = tempfile::tempdir().expect("a temporary directory");
//! let name = fulmar_conformance::database::under_test(directory.path());
//! let moved = fulmar_conformance::transfers::run(&name, 4, 10).expect("no update is lost");
//! assert_eq!(moved, 40);
//! ```
//!
//! What needs seconds only is in `tests/`: the Hermitage scenarios, damaged files, bad input.
//!
//! What a passing run says: no breach was seen. For each check a test breaks what is checked, and sees it fail. What it
//! does not say: that there is none. A kill leaves the operating system's cache as it is, so it is not a power cut.

// Links SQLite on Fulmar's tree, whose symbols rusqlite calls.
use fulmar_sql as _;

pub mod chaos;
pub mod database;
pub mod disk;
pub mod fuzz;
mod generate;
pub mod hostile;
pub mod kill;
pub mod memory;
pub mod outcome;
mod process;
pub mod server;
pub mod slt;
pub mod small;
pub mod transfers;
pub mod workload;
