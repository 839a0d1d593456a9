//! Threads that wake each other while they wait for sockets.

use fulmar_node::Time;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Readable from when it is raised until it is lowered.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub(crate) fn raise(&self) {
        // If it cannot be written to, it is readable.
        let _ = rustix::io::write(&self.0, &[1; 8]);
    }

    pub(crate) fn lower(&self) {
        // If it cannot be read, it was not raised.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An end that many threads wait for, and that comes once.
#[derive(Debug)]
pub(crate) struct Stop {
    is_set: AtomicBool,
    signal: Signal,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { is_set: AtomicBool::new(false), signal: Signal::new()? })
    }

    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.signal.raise();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits for one of these or the end, and no longer than until then.
    pub(crate) fn wait(&self, others: &[PollFd<'_>], now: Time, deadline: Option<Time>) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.signal, PollFlags::IN)];
        fds.extend_from_slice(others);
        let timeout = deadline.map(|deadline| {
            // So that it does not end just before.
            let nanoseconds = deadline.since(now).as_nanos() + 1;
            Timespec {
                tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(nanoseconds % 1_000_000_000).unwrap_or(0),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}
