//! Whether the other side is still there.

use fulmar_node::Time;
use std::time::Duration;

/// Asks after a time of silence, and gives up after another.
#[derive(Clone, Debug)]
pub(crate) struct Liveness {
    /// How long a silence is; none, if nobody asks.
    pub(crate) interval: Option<Duration>,
    since: Time,
    has_asked: bool,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// The other side is to be asked.
    Probe,
    /// It has not answered.
    End,
}

impl Liveness {
    pub(crate) const fn new(interval: Option<Duration>, now: Time) -> Self {
        Self { interval, since: now, has_asked: false }
    }

    pub(crate) const fn heard(&mut self, now: Time) {
        self.since = now;
        self.has_asked = false;
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.interval.map(|interval| self.since + interval)
    }

    pub(crate) fn expire(&mut self, now: Time) -> Due {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            Due::Nothing
        } else if self.has_asked {
            Due::End
        } else {
            *self = Self { interval: self.interval, since: now, has_asked: true };
            Due::Probe
        }
    }
}
