//! The one place where time is read.

use fulmar_node::Time;
use std::time::{Instant, SystemTime};

/// A monotonic clock that begins where the system's is: no other life of a process began there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant, Time);

impl Clock {
    pub(crate) fn start() -> Self {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self(Instant::now(), Time::ZERO + since_1970)
    }

    pub(crate) fn now(self) -> Time {
        self.1 + self.0.elapsed()
    }
}
