//! Network namespaces without names: they are there as long as somebody has them open, or is in one.

use crate::Error;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// A namespace, open.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// A new one, in which there is nothing but a loopback device that is down.
    pub(crate) fn new() -> Result<Self, Error> {
        let made = apart(|| {
            leave()?;
            File::open("/proc/thread-self/ns/net")
        });
        let what = "make a network namespace (this needs the rights of root)";
        made.map(Self).map_err(Error::cannot(what))
    }

    /// One that another process has open.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Where other processes find it while this one has it open.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Moves the calling thread there, and what it starts from now on.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Does something there, in a thread of its own.
    pub(crate) fn within<T: Send>(&self, does: impl FnOnce() -> T + Send) -> Result<T, Error> {
        apart(|| self.enter().map(|()| does())).map_err(Error::cannot("enter a network namespace"))
    }

    /// Has `ip` carry out commands there: all of them, or those before the first that it refuses. `host` is who this is, for errors.
    pub(crate) fn ip(&self, host: &str, commands: &str) -> Result<(), Error> {
        let run = || {
            let mut ip = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(mut input) = ip.stdin.take() {
                input.write_all(commands.as_bytes())?;
            }
            ip.wait_with_output()
        };
        let done = self.within(run)?.map_err(Error::cannot("run `ip` (Debian: apt install iproute2)"))?;
        if done.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&done.stderr).trim().replace('\n', ", ");
        Err(Error::Ip { host: host.into(), why })
    }
}

/// In a thread that ends with it: what it does to the thread stays there.
fn apart<T: Send>(does: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, does)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread to a new namespace.
#[allow(unsafe_code, reason = "it is unsafe for other flags")]
fn leave() -> io::Result<()> {
    // SAFETY: file descriptors stay shared with the other threads, which is what others may rely on.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}
