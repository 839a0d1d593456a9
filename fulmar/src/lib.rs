//! The parts of the `fulmar` binary, each of which is one of its subcommands.
//!
//! - [`shell`]: `fulmar sql`, a shell as people know it from `sqlite3`. Its core takes lines and writes to anything, so
//!   whole sessions are tested against golden files.
//! - [`mod@serve`]: `fulmar serve`, databases or services for others; [`timestamp`] and [`lock`] are clients of services, and
//!   [`fence`] is what keeps late holders of locks out.
//! - [`mod@agree`]: `fulmar agree`, a configuration agreed on in spite of liars, on which alone `serve` starts if told to.
//! - [`discover`]: `fulmar discover`, all members of a network from the addresses of some.
//! - [`transfer`]: `fulmar import`, `export`, `backup` and `restore`, from and to ordinary SQLite files.
//! - [`mod@bench`]: `fulmar bench`, figures beside what people use today.
//! - [`lab`]: `fulmar lab`, what papers have measured, run again.
//! - `fulmar net` is a crate of its own, `fulmar_net`.
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

pub mod agree;
pub mod bench;
pub mod demo;
mod descriptors;
pub mod discover;
pub mod drain;
mod ending;
pub mod fence;
mod files;
pub mod lab;
pub mod lock;
mod log;
mod metrics;
#[cfg(test)]
mod reference;
pub mod serve;
pub mod shell;
mod signals;
pub mod status;
pub mod switch;
pub mod timestamp;
pub mod transfer;

// Links SQLite on Fulmar's tree, whose symbols rusqlite calls.
use fulmar_sql as _;
