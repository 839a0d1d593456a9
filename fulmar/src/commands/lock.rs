//! `fulmar lock`: a command that runs while it holds a lock, as `flock` has it on one machine.

use crate::commands::fence::VARIABLE;
use crate::commands::timestamp::REACHED;
use crate::commands::waiting;
use crate::ending::{BadUsage, failed};
use crate::signals;
use clap::Args;
use fulmar_replication::applications::{LockMode, Locks};
use fulmar_services::{Application, Charter, Fence, Lease, LockError, LockSession, Members};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};
use std::error::Error;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// `fulmar lock`
#[derive(Args)]
#[command(
    after_help = "Example:\n  fulmar lock 10.0.0.1:7500,10.0.0.2:7500,10.0.0.3:7500 backup -- ./backup.sh\n\n\
                        It waits for the lock behind all who wait for it already. If it ends in any way, so does the \
                        command, but not what that has started. If the replicas do not hear of it in time, others get \
                        the lock, and it kills the command before; if it was stopped meanwhile, after. So what must not be \
                        changed by two goes by `fulmar fence` with the fencing token in FULMAR_FENCE, which is larger than \
                        that of each holder before.\n\n\
                        Exit status: that of the command, or 128 and the signal that has ended it; 1 failed, 2 bad \
                        usage."
)]
pub struct Lock {
    /// All replicas of the service, in any order
    #[arg(value_name = "HOST:PORT,…")]
    members: String,
    /// The lock
    #[arg(value_parser = name)]
    name: String,
    /// Share the lock with others who do
    #[arg(long)]
    shared: bool,
    /// For how long the lock is kept if this is not heard of; at most a day
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=LONGEST))]
    expires: u32,
    /// Only runs the command, for the process of this number, and ends with it
    #[arg(long, value_name = "PID", hide = true)]
    under: Option<i32>,
    /// What to run
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

const LONGEST: i64 = LockSession::LONGEST.as_secs().cast_signed();

fn name(text: &str) -> Result<String, String> {
    let longest = Locks::LONGEST_NAME;
    if text.len() > longest {
        return Err(format!("the name of a lock has at most {longest} bytes"));
    }
    Ok(text.into())
}

/// Runs the command, once it has the lock.
pub fn run(lock: &Lock) -> ExitCode {
    let outcome = match lock.under {
        Some(parent) => run_under(parent, &lock.command),
        None => hold(lock),
    };
    outcome.unwrap_or_else(failed)
}

fn hold(lock: &Lock) -> Result<ExitCode, Box<dyn Error>> {
    let members = Members::new(lock.members.split(',')).map_err(BadUsage::new)?;
    let charter = Charter::find_within(REACHED, Application::Locks, &members)?;
    let expires = Duration::from_secs(lock.expires.into());
    let mut session = waiting::ask(&charter, || LockSession::open(&charter, expires))?;
    let mode = if lock.shared { LockMode::Read } else { LockMode::Write };
    let fence = session.acquire(lock.name.as_bytes(), mode)?;
    let handle = Arc::new(OnceLock::new());
    let known = handle.clone();
    signals::on(&[signals::SIGTERM], move || pass_on(known.get()))?;
    // A terminal sends it to the command, too.
    signals::on(&[signals::SIGINT], || ())?;
    let mut child = start(lock, fence)?;
    let opened = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    handle.get_or_init(|| opened);
    let lease = session.lease().clone();
    thread::spawn(move || guard(&lease, handle.get()));
    let status = child.wait()?;
    close(session, expires)?;
    Ok(exit_code(status))
}

/// Gives the lock up. If nobody hears of that, it ends by itself.
fn close(session: LockSession, expires: Duration) -> Result<(), LockError> {
    if session.lease().is_over() {
        return Err(LockError::Expired);
    }
    let (tell, told) = channel();
    // Who asked may have given up.
    thread::spawn(move || drop(tell.send(session.close())));
    told.recv_timeout(expires).unwrap_or(Ok(()))
}

/// Starts the command so that it ends with this process, whose thread waits for it.
fn start(lock: &Lock, fence: Fence) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["lock", "--under", &process::id().to_string(), &lock.members, &lock.name, "--"]);
    Ok(command.args(&lock.command).env(VARIABLE, fence.0.to_string()).spawn()?)
}

/// Becomes the command, which is killed when its parent ends.
fn run_under(parent: i32, command: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Err("who holds the lock has ended".into());
    }
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}

/// Kills the command if the lock is lost.
fn guard(lease: &Lease, command: Option<&OwnedFd>) {
    if lease.wait()
        && let Some(command) = command
    {
        signal(command, Signal::KILL);
    }
}

/// Tells the command to end, or does so where there is none yet.
fn pass_on(command: Option<&OwnedFd>) {
    match command {
        Some(command) => signal(command, Signal::TERM),
        None => process::exit(128 + signals::SIGTERM),
    }
}

fn signal(command: &OwnedFd, signal: Signal) {
    // It may have ended before.
    let _ = pidfd_send_signal(command, signal);
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
