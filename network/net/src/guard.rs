//! A small process that cleans up after the network's, in whatever way that ends. The kernel removes namespaces and interfaces by
//! itself, as nobody has them open any more; left are commands that run in hosts, and files.

use crate::Error;
use crate::namespace::Namespace;
use crate::state::Lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// After so long, who was asked to end is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The guard, for the network's process.
pub(crate) struct Guard {
    process: Child,
    /// Open as long as the network's process lives. Nothing while the guard is to end.
    lifeline: Option<ChildStdin>,
    /// A byte for each namespace that it has open: a name alone would mean nothing once the network's process is gone.
    opened: Option<ChildStderr>,
    ended: OwnedFd,
}

impl Guard {
    /// Starts one, of these namespaces. It has a share in the lock, so that nobody takes the directory before it has been removed.
    pub(crate) fn start<'a>(
        directory: &Path,
        lock: &Lock,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Result<Self, Error> {
        let mut process = Command::new("/proc/self/exe")
            .arg0("fulmar")
            .args(["net", "guard"])
            .arg(directory)
            // Ctrl-C is for the network's process.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(lock.share()?)
            // Not the network's own: whoever waits for all that it says is not to wait for this one.
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::cannot("start a guard"))?;
        let pid = Pid::from_child(&process);
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(Error::cannot("watch the guard"))?;
        let lifeline = process.stdin.take();
        let opened = process.stderr.take();
        let mut guard = Self { process, lifeline, opened, ended };
        namespaces.into_iter().try_for_each(|namespace| guard.watch(namespace))?;
        Ok(guard)
    }

    /// One more namespace whose processes are to end with the network.
    pub(crate) fn watch(&mut self, namespace: &Namespace) -> Result<(), Error> {
        let Some(lifeline) = &mut self.lifeline else { return Ok(()) };
        writeln!(lifeline, "{}", namespace.path().display()).map_err(Error::cannot("tell the guard"))?;
        let Some(opened) = &mut self.opened else { return Ok(()) };
        opened.read_exact(&mut [0]).map_err(Error::cannot("hear of the guard"))
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }
}

impl AsFd for Guard {
    /// Readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.lifeline = None;
        // If it cannot be waited for, it is gone.
        let _ = self.process.wait();
    }
}

/// What the process does: waits for its input's end, then ends all processes in the namespaces that came in there, and removes the
/// directory. Its output is the lock of that.
pub(crate) fn stand(directory: &Path) -> Result<(), Error> {
    // One that is gone by now has no processes.
    let lines = io::stdin().lock().lines().map_while(Result::ok);
    let open = |path: String| {
        let namespace = Namespace::open(Path::new(&path)).ok();
        // Who would hear it may be gone.
        let _ = io::stderr().write_all(b".");
        namespace
    };
    let namespaces: Vec<_> = lines.filter_map(open).collect();
    end_all(&namespaces);
    drop(namespaces);
    fs::remove_dir_all(directory).map_err(Error::cannot(format!("remove {}", directory.display())))
}

/// Asks processes to end, and kills those that do not.
fn end_all(namespaces: &[Namespace]) {
    let places: BTreeSet<_> = namespaces
        .iter()
        .filter_map(|namespace| namespace.file().metadata().ok())
        .map(|place| (place.dev(), place.ino()))
        .collect();
    let deadline = Instant::now() + PATIENCE;
    let mut signal = Signal::TERM;
    loop {
        let found = within(&places);
        if found.is_empty() {
            return;
        }
        for process in &found {
            // It may have ended.
            let _ = pidfd_send_signal(process, signal);
        }
        for process in &found {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = if signal == Signal::KILL { PATIENCE } else { left };
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            // Whether it has ended is seen when all are looked for again.
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left));
        }
        signal = Signal::KILL;
    }
}

/// Processes that are in one of these places.
fn within(places: &BTreeSet<(u64, u64)>) -> Vec<OwnedFd> {
    let is_there = |pid: u32| {
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|place| places.contains(&(place.dev(), place.ino())))
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| is_there(*pid))
        .filter_map(|pid| {
            let process = pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()?;
            // Not another one that has its number now.
            is_there(pid).then_some(process)
        })
        .collect()
}
