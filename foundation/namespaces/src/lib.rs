//! Hosts of tests and measurements, as network namespaces of this machine.
//!
//! *Known as:* network namespaces, `ip netns`, a test bed.
//!
//! # The problem
//!
//! What is tested on a network needs one that nobody else is on, with addresses that nobody else has, and that leaves nothing behind.
//!
//! # The idea
//!
//! A [`Namespace`] is a host of its own. It goes with the value that stands for it, and its interfaces with it. Threads enter it; what they open and
//! start from then on is that host's.
//!
//! # Example
//!
//! ```
//! use fulmar_namespaces::Namespace;
//! use std::net::TcpListener;
//!
//! // Only root may.
//! if let Ok(host) = Namespace::new("example") {
//!     host.ip(&["address", "add", "10.1.2.3/24", "dev", "lo"])?;
//!     let listener = host.within(|| TcpListener::bind("10.1.2.3:0"))?;
//!     assert!(TcpListener::bind(listener.local_addr()?).is_err(), "nobody has that address outside");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! Processes that live at the same time get different names. Not guaranteed: that a namespace goes whose process was killed. Needs `ip` (iproute2) and the
//! rights of root.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::thread;

/// What `ip` did not do, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ip {arguments}: {why}")]
pub struct Refused {
    arguments: String,
    why: String,
}

/// A network namespace, which goes with this value, and its interfaces with it.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// A new one, whose `lo` is up. No other that this process has may be called so.
    ///
    /// # Errors
    /// [`Refused`], without the rights of root, or without `ip`.
    pub fn new(name: &str) -> Result<Self, Refused> {
        // No other process that lives has this number.
        let name = format!("fulmar-{}-{name}", std::process::id());
        ip(&["netns", "add", &name])?;
        let made = Self(name);
        made.ip(&["link", "set", "lo", "up"])?;
        Ok(made)
    }

    /// What `ip` calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Has `ip` change something there.
    ///
    /// # Errors
    /// [`Refused`]: what `ip` says.
    pub fn ip(&self, arguments: &[&str]) -> Result<(), Refused> {
        ip(&[&["-n", &self.0], arguments].concat())
    }

    /// A program, to be run there.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }

    /// Moves the thread that calls it here, for good: what it opens and starts from now on is this host's.
    ///
    /// # Panics
    /// If somebody else has removed the namespace.
    pub fn enter(&self) {
        let link = File::open(format!("/run/netns/{}", self.0)).expect("`ip` has made it");
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
    }

    /// Does something there, and waits until it is done.
    ///
    /// # Panics
    /// As [`Self::enter`], and as what is done.
    pub fn within<T: Send>(&self, does: impl FnOnce() -> T + Send) -> T {
        // On a thread of its own, since it cannot go back.
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                does()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), Refused> {
    let refused = |why: String| Refused { arguments: arguments.join(" "), why };
    let done = Command::new("ip").args(arguments).output().map_err(|why| refused(why.to_string()))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(refused(String::from_utf8_lossy(&done.stderr).trim().into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_says_is_told_with_what_it_was_asked() {
        let refused = ip(&["link", "set", "no-such-bird", "up"]).expect_err("there is none");
        assert!(refused.to_string().starts_with("ip link set no-such-bird up: "), "{refused}");
    }
}
