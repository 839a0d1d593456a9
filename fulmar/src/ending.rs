//! How a subcommand ends.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The status of a command that was used wrongly, as clap has it.
const BAD_USAGE: u8 = 2;

/// What was asked for cannot be meant: an argument or a setting is wrong, whatever the world is like.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(String);

impl BadUsage {
    pub(crate) fn new(why: impl Display) -> Self {
        Self(why.to_string())
    }
}

/// 0 if it is done; if it failed, 1 or 2, and why.
pub(crate) fn exit_code(done: Result<(), impl Into<Box<dyn Error>>>) -> ExitCode {
    done.map_or_else(failed, |()| ExitCode::SUCCESS)
}

/// Says why it failed: 2 if it is [`BadUsage`], else 1.
pub(crate) fn failed(why: impl Into<Box<dyn Error>>) -> ExitCode {
    let why = why.into();
    // The status tells too.
    let _ = writeln!(io::stderr(), "Error: {why}");
    if why.is::<BadUsage>() { ExitCode::from(BAD_USAGE) } else { ExitCode::FAILURE }
}
