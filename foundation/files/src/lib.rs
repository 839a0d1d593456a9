//! What is asked of the operating system in one place.
//!
//! # Chance
//!
//! Names that nobody else may have (of clients, servers, clusters, replicas) are drawn by chance. A generator in the
//! process would be copied by `fork()`, and parent and child would go on to draw the same: two clients of one name lose
//! each other's commits. So [`chance`] keeps nothing in the process, and asks the system each time.
//!
//! *Known as:* entropy, `getrandom(2)`, UUIDs of version 4.
//!
//! ```
//! let (one, other) = (fulmar_files::chance_u64()?, fulmar_files::chance_u64()?);
//! assert_ne!(one, other);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Names of sockets
//!
//! A Unix socket needs a name, and a process that was killed leaves it behind. Who removes whatever has the name may remove
//! anything, as root. So [`NamedSocket`] takes over only what was left. Who may connect is said by the socket's mode, which [`listen_in`]
//! takes from the directory; it has its name only when it listens. A [`Door`] is such a socket or one of TCP. Who comes in waits at a [`Threshold`] until it is known who that is.
//!
//! # Room
//!
//! [`bytes_in`] says what the files in a directory take on the disk.
//!
//! # Files that are there as a whole
//!
//! [`write_whole`] replaces a file in one step, and [`create_anew`] makes one, and [`open_file`] opens one, without following what is there.
//!
//! *Known as:* atomic replacement, write to a temporary file and `rename(2)`.
//!
//! # Locks
//!
//! [`lock_file`] says by the lock of a file that somebody is there, and finds out whether another is.
//!
//! *Known as:* a lock file, a pid file, `flock(2)`.
//!
//! # Records
//!
//! A [`RecordLog`] is a file to which records are appended. After a crash it holds those that were synced, and it tells damage from a torn end.
//!
//! *Known as:* a write-ahead log, a journal.
//!
//! # What is guaranteed
//!
//! Chance: what it gives depends on nothing that a process has, so it is independent of what any other process is given.
//! Not guaranteed: speed (a system call each time), or that a test can repeat it. Deterministic processes are given a seed
//! instead.

mod door;
mod lock;
mod record_log;
mod room;
mod socket;
mod threshold;
mod whole;

pub use door::{Door, Visit};
pub use lock::{FileLock, lock_file};
pub use record_log::{RecordFormat, RecordLog, RecordLogError};
pub use room::bytes_in;
pub use socket::{NamedSocket, listen_in, remove_socket};
pub use threshold::{Stranger, Threshold};
pub use whole::{create_anew, open_file, write_whole};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Bytes by chance, drawn from the system anew.
///
/// # Errors
/// If the system gives none.
pub fn chance<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut drawn = 0;
    while drawn < N {
        match getrandom(&mut bytes[drawn..], GetRandomFlags::empty()) {
            Ok(count) => drawn += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// A number by chance, drawn from the system anew.
///
/// # Errors
/// As [`chance`].
pub fn chance_u64() -> io::Result<u64> {
    chance().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_drawn() {
        // More than the system gives at once without being asked again.
        let bytes: [u8; 1 << 10] = chance().expect("chance");
        let mut seen = [false; 256];
        bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        assert!(seen.iter().filter(|seen| **seen).count() > 200);
    }
}
