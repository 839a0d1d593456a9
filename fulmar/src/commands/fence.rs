//! `fulmar fence`: a command that a later holder of its lock keeps from running.

use crate::ending::{BadUsage, failed};
use clap::Args;
use fulmar_services::{Fence, FenceFile};
use rustix::io::{FdFlags, fcntl_setfd};
use std::error::Error;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Where `fulmar lock` tells its command the fencing token.
pub(crate) const VARIABLE: &str = "FULMAR_FENCE";

/// `fulmar fence`
#[derive(Args)]
#[command(after_help = "Example, in a script that `fulmar lock` runs:\n  \
                        fulmar fence /srv/backup/.fence -- rsync -a /srv/data/ /srv/backup/\n\n\
                        FILE is on the machine of what the command changes, and the same for all who change it. It keeps the \
                        largest fencing token that has come. While the command runs, and what it has started, nobody else is \
                        let through: one with a later token waits for it.\n\n\
                        Exit status: that of the command; 1 if its token is not the largest, or failed; 2 bad usage.")]
pub struct Options {
    /// The file that keeps the largest token, made if there is none
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The fencing token of the lock, if not that in FULMAR_FENCE
    #[arg(long, value_name = "NUMBER")]
    token: Option<u64>,
    /// What to run; nothing, to be told only whether the token is the largest now
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Becomes the command, if nobody with a larger token has come before.
pub fn run(options: &Options) -> ExitCode {
    try_run(options).unwrap_or_else(failed)
}

fn try_run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let token = match (options.token, std::env::var(VARIABLE)) {
        (Some(token), _) => token,
        (None, Ok(text)) => text
            .parse()
            .map_err(|_| BadUsage::new(format_args!("{VARIABLE} = {text:?}: expected a number")))?,
        (None, Err(_)) => {
            let why = format!("there is no {VARIABLE}: expected to run under `fulmar lock`");
            return Err(BadUsage::new(why).into());
        }
    };
    let admitted = FenceFile::open(&options.file)?.admit(Fence(token))?;
    let Some((program, arguments)) = options.command.split_first() else { return Ok(ExitCode::SUCCESS) };
    // The command has the file open, and with it the way to itself.
    fcntl_setfd(admitted.as_fd(), FdFlags::empty())?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}
