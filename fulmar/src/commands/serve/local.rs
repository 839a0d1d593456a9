//! `fulmar serve --local`: the server that a process starts when it is asked to share a database with another of the same
//! machine. It ends when it has had no client for some seconds.

use crate::signals;
use fulmar_cluster::{Door, Doors, LOCAL_CLUSTER, Replication, Report, Service, Single};
use fulmar_dbt::{Options, Timestamp};
use fulmar_transport::{FIRST_CLIENT, Notice};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::FdFlags;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long the server waits for somebody to come back, so that a script that calls one program after the other, or a
/// web server between two requests, does not start a server each time.
const IDLE: Duration = Duration::from_secs(5);
/// What tells whoever starts a server that it can be reached.
const READY: &str = "ready";
/// In the environment of the process that becomes the server.
const DETACHED: &str = "FULMAR_SERVE_DETACHED";

/// Serves the database in `path`. Says on standard output that it does, or why not; keeps the snapshot `oldest` until
/// nobody reads that any more.
pub(super) fn run(path: &Path, options: &Options, oldest: Option<Timestamp>) -> Result<(), Box<dyn Error>> {
    if std::env::var_os(DETACHED).is_none() {
        return Ok(detach()?);
    }
    // It fails for who leads a session already.
    let _ = rustix::process::setsid();
    serve(path, options, oldest).inspect_err(|why| println!("{why}"))
}

/// Starts this program again as nobody's child, without the files that it was given beyond the standard ones: a listening
/// socket of the application, say, which must not stay open for as long as the server runs.
fn detach() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        if let Some(file @ 3..) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            close_on_exec(file);
        }
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(DETACHED, "1").current_dir("/").stderr(Stdio::null());
    command.spawn().map(drop)
}

fn close_on_exec(file: RawFd) {
    #[expect(unsafe_code, reason = "files that were inherited have no owner in this program")]
    // SAFETY: the borrow ends before anything is closed. If the number has become that of no file, the call fails.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    let _ = rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC);
}

fn serve(path: &Path, options: &Options, oldest: Option<Timestamp>) -> Result<(), Box<dyn Error>> {
    let (database, kept) = Single::open(path, options, oldest)?;
    // From here on the directory is ours, and so is whatever a killed process has left there.
    let doors = Doors::of(path)?;
    doors.remove(Door::Holder)?;
    let listener = doors.listen(Door::Server)?;
    let mut service = Service::first(LOCAL_CLUSTER, Box::new(database), "", Replication::default())?;
    service.listen(listener)?;
    let starter = io::stdout().as_fd().try_clone_to_owned()?;
    println!("{READY}");
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    thread::spawn(move || {
        // Who starts the server holds the other end until it has taken its snapshots over, or is dead. The end of a pipe
        // that is written to has an error when nobody reads.
        let _ = poll(&mut [PollFd::new(&starter, PollFlags::empty())], None);
        drop(kept);
    });
    let (clients, changes) = mpsc::channel();
    let stop = service.handle();
    let end = Arc::new(move || {
        // Before the database is closed: whoever finds no door starts another server, which waits for the lock.
        let _ = doors.remove(Door::Server);
        stop.stop();
    });
    let told = Arc::clone(&end);
    signals::on(&[signals::SIGINT, signals::SIGTERM], move || told())?;
    thread::spawn(move || {
        wait_until_idle(&changes);
        end();
    });
    service.run(|report| {
        let Report::Connection(notice) = report else { return };
        let change = match notice {
            Notice::Connected { peer, .. } if *peer >= FIRST_CLIENT => 1,
            Notice::Closed { peer, .. } if *peer >= FIRST_CLIENT => -1,
            _ => return,
        };
        // Nobody listens when the server is about to end.
        let _ = clients.send(change);
    })?;
    Ok(())
}

/// Returns when there has been no client for a while. Changes of their number come in.
fn wait_until_idle(changes: &Receiver<i32>) {
    let mut clients = 0;
    loop {
        let change = if clients > 0 {
            changes.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            changes.recv_timeout(IDLE)
        };
        match change {
            Ok(change) => clients += change,
            Err(_) => return,
        }
    }
}
