//! How many come in at one door.
//!
//! Each has a thread. Who says nothing keeps nobody out: of those who have not said hello the oldest has to go when more come. Nor does who has just
//! left, and whose thread has not seen it yet: who comes waits for it.

use crate::channel::Channel;
use fulmar_files::{Stranger, Threshold};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// So many sessions at one time…
pub(crate) const MOST: usize = 100;
/// …of which so many may not have begun.
const STRANGERS: usize = 50;
/// For how long who comes waits for one of too many to end.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Visitors {
    threshold: Arc<Threshold<OwnedFd>>,
    seats: Arc<Seats>,
}

#[derive(Default)]
struct Seats {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// The place of one, until this is dropped.
pub(crate) struct Seat(Arc<Seats>);

impl Visitors {
    pub(crate) fn new() -> Self {
        Self { threshold: Arc::new(Threshold::new(STRANGERS)), seats: Arc::default() }
    }

    /// The place of somebody who comes, and what is to be dropped when its session begins; nothing, if there are too many.
    pub(crate) fn enter(&self, channel: &dyn Channel) -> io::Result<Option<(Seat, Stranger<OwnedFd>)>> {
        let mut taken = self.seats.taken.lock();
        self.seats.freed.wait_while_for(&mut taken, |taken| *taken >= MOST, PATIENCE);
        if *taken >= MOST {
            return Ok(None);
        }
        *taken += 1;
        drop(taken);
        let seat = Seat(Arc::clone(&self.seats));
        Ok(Some((seat, self.threshold.enter(channel.as_fd().try_clone_to_owned()?))))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *self.0.taken.lock() -= 1;
        self.0.freed.notify_one();
    }
}
