//! The parts of the `fulmar` binary.
//!
//! - [`commands`]: each subcommand, with what it takes from the command line: [`serve`](mod@commands::serve), databases or services for
//!   others; [`timestamp`](commands::timestamp) and [`lock`](commands::lock), clients of services, and [`fence`](commands::fence), which
//!   keeps late holders of locks out; [`agree`](mod@commands::agree), a configuration agreed on in spite of liars, on which alone `serve`
//!   starts if told to; [`discover`](commands::discover), all members of a network from the addresses of some;
//!   [`bench`](mod@commands::bench), figures beside what people use today; [`lab`](commands::lab), what papers have measured, run again.
//! - [`shell`]: what `fulmar sql` runs, a shell as people know it from `sqlite3`. Its core takes lines and writes to anything, so
//!   whole sessions are tested against golden files.
//! - `transfer`: how `fulmar import`, `export`, `backup` and `restore` copy, from and to ordinary SQLite files.
//!
//! ```
//! use fulmar::shell::{Database, Script, Settings, Shell};
//! use std::io::{stderr, stdout};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What `echo 'SELECT 1;' | fulmar sql :memory:` comes down to:
//! let (output, errors) = (Box::new(stdout()), Box::new(stderr()));
//! let mut shell = Shell::open(Database::named(":memory:")?, Settings::default(), output, errors)?;
//! let mut script = Script::batch();
//! shell.run_script(&mut script, &mut "SELECT 1;".as_bytes())?;
//! assert_eq!(script.errors(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! What is guaranteed: bad input names what is wrong and what was expected, and exit status is 0 (done), 1 (failed) or 2
//! (bad usage). What is not: the library's interface, which exists for the binary and its tests.

pub mod commands;
mod descriptors;
mod ending;
mod files;
mod log;
mod metrics;
#[cfg(test)]
mod reference;
pub mod shell;
mod signals;
mod transfer;

// Links SQLite on Fulmar's tree, whose symbols rusqlite calls.
use fulmar_sql as _;
