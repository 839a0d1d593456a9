//! How a subcommand ends.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// 0 if it is done; if it failed, 1, and why.
pub(crate) fn exit_code<E: Display>(done: Result<(), E>) -> ExitCode {
    done.map_or_else(failed, |()| ExitCode::SUCCESS)
}

/// Says why it failed.
pub(crate) fn failed(why: impl Display) -> ExitCode {
    // The status tells too.
    let _ = writeln!(io::stderr(), "Error: {why}");
    ExitCode::FAILURE
}
