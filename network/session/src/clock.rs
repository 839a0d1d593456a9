//! The clock.
#![expect(clippy::disallowed_methods, reason = "here the clock is read, so that it is not elsewhere")]

use fulmar_node::Time;
use std::time::Instant;

/// Time since it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
}
