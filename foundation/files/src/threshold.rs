//! How many come in at a time.

use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Where those wait who have connected and are not known yet, at most so many: each has a thread, and threads take memory. When more come,
/// who has been there for the longest has to go, so whoever says nothing keeps nobody out.
#[derive(Debug)]
pub struct Threshold<S> {
    most: usize,
    /// By the numbers in the order of which they have come.
    here: Mutex<BTreeMap<u64, S>>,
    somebody_left: Condvar,
}

impl<S: AsFd> Threshold<S> {
    /// A place for so many, one at least.
    pub const fn new(most: usize) -> Self {
        Self { most, here: Mutex::new(BTreeMap::new()), somebody_left: Condvar::new() }
    }

    /// Somebody comes, by this connection, later than all whose numbers are smaller. Returns when there is room: as soon as one has
    /// [left](Self::leave), if there are many, whose connection is shut down for that.
    pub fn enter(&self, number: u64, connection: S) {
        let mut here = self.lock();
        while here.len() >= self.most.max(1) {
            if let Some((_, oldest)) = here.first_key_value() {
                // It may have ended by itself.
                let _ = shutdown(oldest, Shutdown::Both);
            }
            here = self.somebody_left.wait(here).unwrap_or_else(PoisonError::into_inner);
        }
        here.insert(number, connection);
    }

    /// This one's thread is about to end, or it is known by now who it is.
    pub fn leave(&self, number: u64) {
        self.lock().remove(&number);
        self.somebody_left.notify_one();
    }

    /// A thread that panicked has left nothing half done in it.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, S>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
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
        let threshold = Threshold::new(2);
        let pair = || UnixStream::pair().expect("two sockets");
        let ((mut first, own), (_second, other), (_third, third)) = (pair(), pair(), pair());
        threshold.enter(1, own);
        threshold.enter(2, other);
        thread::scope(|scope| {
            let comes = scope.spawn(|| threshold.enter(3, third));
            assert_eq!(first.read(&mut [0]).expect("it was shut down"), 0);
            assert!(!comes.is_finished(), "the first has not left");
            threshold.leave(1);
            comes.join().expect("there is room");
        });
        let here: Vec<_> = threshold.lock().keys().copied().collect();
        assert_eq!(here, [2, 3]);
    }
}
