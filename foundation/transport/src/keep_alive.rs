//! Keep-alives: what other servers hear of a server whose turn takes long.
//!
//! A process that works on something large, or waits for its disk, says nothing meanwhile, and cannot be told from one that is
//! gone. So a second thread says for it that it is there: on each connection with another server, as long as a turn lasts, but not
//! longer than [`Limits::busy`](crate::Limits::busy). A process that was killed or stopped has no such thread any more.
//!
//! *Known as:* keep-alive, liveness ping. It says no more than that: what is promised by a sign of the process itself, such as a
//! lease, is not.

use crate::clock::Clock;
use crate::frame::KEEP_ALIVE;
use crate::link::send_at_once;
use fulmar_locks::Mutex;
use fulmar_node::Time;
use rustix::net::SendFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// A turn that lasts longer takes long, and so often it is said.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);
/// No turn is under way.
const WAITING: u64 = 0;

/// The frame that a connection is in the middle of sending. Nothing else may leave before its end has.
pub(crate) struct Tail {
    socket: OwnedFd,
    pub(crate) bytes: Mutex<Vec<u8>>,
}

impl Tail {
    pub(crate) fn of(socket: &OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: socket.try_clone()?, bytes: Mutex::default() })
    }

    /// Says that the process is there, unless the other end has not read yet what was said before.
    pub(crate) fn keep_alive(&self) {
        // Whoever holds the lock is about to send something.
        let Some(mut bytes) = self.bytes.try_lock() else { return };
        push(&self.socket, &mut bytes, SendFlags::empty());
        if bytes.is_empty() {
            bytes.extend_from_slice(&KEEP_ALIVE);
            push(&self.socket, &mut bytes, SendFlags::empty());
        }
    }
}

/// Sends what the network takes of `bytes` without waiting, and removes it; answers how much that was. Of a connection that is
/// broken nothing remains: reading tells why.
pub(crate) fn push(socket: &OwnedFd, bytes: &mut Vec<u8>, more: SendFlags) -> usize {
    let Some(count) = send_at_once(socket, bytes, more) else {
        bytes.clear();
        return 0;
    };
    bytes.drain(..count);
    count
}

/// The turns of a server, as a thread watches them.
pub(crate) struct KeepAlive {
    watched: Arc<Watched>,
    thread: Option<JoinHandle<()>>,
}

struct Watched {
    /// When the turn that is under way has begun, as [`Time`] counts.
    begun: AtomicU64,
    is_over: AtomicBool,
    /// The connections with other servers, by key.
    tails: Mutex<BTreeMap<u64, Arc<Tail>>>,
}

impl KeepAlive {
    /// Watches the turns of a server, as far as they last no longer than `most`.
    pub(crate) fn start(clock: Clock, most: Duration) -> io::Result<Self> {
        let watched = Arc::new(Watched {
            begun: AtomicU64::new(WAITING),
            is_over: AtomicBool::new(false),
            tails: Mutex::default(),
        });
        let watches = Arc::clone(&watched);
        let thread = std::thread::Builder::new().name("keep-alive".into());
        let thread = thread.spawn(move || watches.watch(clock, most))?;
        Ok(Self { watched, thread: Some(thread) })
    }

    pub(crate) fn begin_turn(&self, now: Time) {
        self.watched.begun.store(now.as_nanos(), Relaxed);
    }

    pub(crate) fn end_turn(&self) {
        self.watched.begun.store(WAITING, Relaxed);
    }

    pub(crate) fn add(&self, key: u64, tail: Arc<Tail>) {
        self.watched.tails.lock().insert(key, tail);
    }

    pub(crate) fn remove(&self, key: u64) {
        self.watched.tails.lock().remove(&key);
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.watched.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to tell, not even that it has panicked.
            let _ = thread.join();
        }
    }
}

impl Watched {
    fn watch(&self, clock: Clock, most: Duration) {
        while !self.is_over.load(Relaxed) {
            std::thread::park_timeout(INTERVAL);
            let begun = self.begun.load(Relaxed);
            let lasted = clock.now().since(Time::from_nanos(begun));
            if begun != WAITING && lasted >= INTERVAL && lasted <= most {
                self.tails.lock().values().for_each(|tail| tail.keep_alive());
            }
        }
    }
}
