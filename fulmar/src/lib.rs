//! The parts of the `fulmar` binary, each of which is one of its subcommands.

pub mod shell;
