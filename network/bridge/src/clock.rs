//! The time of a bridge: where the clock is read, so that it is not elsewhere.

use fulmar_node::Time;
use std::time::Instant;

/// Time since the bridge was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
}
