//! How many come in at a time.

use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where those wait who have connected and are not known yet, at most so many: each has a thread, and threads take memory. When more come,
/// who has been there for the longest has to go, so whoever says nothing keeps nobody out.
#[derive(Debug)]
pub struct Threshold<S> {
    most: usize,
    here: Mutex<Here<S>>,
    somebody_left: Condvar,
}

/// Who is there, in the order in which they have come.
#[derive(Debug)]
struct Here<S> {
    next: u64,
    connections: BTreeMap<u64, S>,
}

/// Somebody who is there, until this is dropped: when its thread ends, however it does, or when it is known who it is.
#[derive(Debug)]
pub struct Stranger<S> {
    threshold: Arc<Threshold<S>>,
    number: u64,
}

impl<S: AsFd> Threshold<S> {
    /// A place for so many, one at least.
    pub const fn new(most: usize) -> Self {
        let here = Here { next: 0, connections: BTreeMap::new() };
        Self { most, here: Mutex::new(here), somebody_left: Condvar::new() }
    }

    /// Somebody comes by this connection. Returns when there is room: as soon as one has left, if there are many, of whom the first has its
    /// connection shut down.
    pub fn enter(self: &Arc<Self>, connection: S) -> Stranger<S> {
        let mut here = self.lock();
        while here.connections.len() >= self.most.max(1) {
            if let Some((_, oldest)) = here.connections.first_key_value() {
                // It may have ended by itself.
                let _ = shutdown(oldest, Shutdown::Both);
            }
            here = self.somebody_left.wait(here).unwrap_or_else(PoisonError::into_inner);
        }
        let number = here.next;
        here.next += 1;
        here.connections.insert(number, connection);
        Stranger { threshold: Arc::clone(self), number }
    }
}

impl<S> Threshold<S> {
    /// A thread that panicked has left nothing half done in it.
    fn lock(&self) -> MutexGuard<'_, Here<S>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Drop for Stranger<S> {
    fn drop(&mut self) {
        self.threshold.lock().connections.remove(&self.number);
        self.threshold.somebody_left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn the_oldest_has_to_go_and_nobody_comes_before_it_has() {
        let threshold = Arc::new(Threshold::new(2));
        let pair = || UnixStream::pair().expect("two sockets");
        let ((mut first, own), (_second, other), (_third, third)) = (pair(), pair(), pair());
        let (oldest, newer) = (threshold.enter(own), threshold.enter(other));
        thread::scope(|scope| {
            let comes = scope.spawn(|| threshold.enter(third));
            assert_eq!(first.read(&mut [0]).expect("it was shut down"), 0);
            assert!(!comes.is_finished(), "the first has not left");
            drop(oldest);
            let newest = comes.join().expect("there is room");
            let here: Vec<_> = threshold.lock().connections.keys().copied().collect();
            assert_eq!(here, [newer.number, newest.number]);
        });
    }

    #[test]
    fn whose_thread_panics_has_left() {
        let threshold = Arc::new(Threshold::new(1));
        let enters = || threshold.enter(UnixStream::pair().expect("two sockets").0);
        let stranger = enters();
        let panics = thread::spawn(move || {
            let _here = stranger;
            panic!("as if by a bug");
        });
        panics.join().expect_err("it panics");
        drop(enters());
    }
}
