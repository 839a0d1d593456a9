//! When a controller is called again, and what became of the calls so far.

use fulmar_node::Time;
use std::time::Duration;

/// What is happening with a target, in the words of the database's table `Controller`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Somebody may come.
    Void,
    /// The next call waits.
    Backoff,
    /// It is called.
    Connecting,
    /// It is connected.
    Active,
}

impl State {
    /// As the column `status` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Void => "VOID",
            Self::Backoff => "BACKOFF",
            Self::Connecting => "CONNECTING",
            Self::Active => "ACTIVE",
        }
    }
}

/// The shortest time between calls, and how long a call may take at least.
const SHORTEST: Duration = Duration::from_secs(1);

/// The calls of one target. After each that fails, the time until the next one doubles, up to a limit; it is short again after a
/// connection that lasted longer than that.
#[derive(Debug)]
pub(crate) struct Attempts {
    longest: Duration,
    backoff: Duration,
    pub(crate) state: State,
    pub(crate) last_error: Option<String>,
    /// When it was last connected, and no longer was.
    pub(crate) connected: Option<Time>,
    pub(crate) disconnected: Option<Time>,
}

impl Attempts {
    pub(crate) fn new(max_backoff: Duration) -> Self {
        Self {
            longest: max_backoff.max(SHORTEST),
            backoff: Duration::ZERO,
            state: State::Void,
            last_error: None,
            connected: None,
            disconnected: None,
        }
    }

    /// A call begins. When it fails, if it has not succeeded.
    pub(crate) fn begin(&mut self, now: Time) -> Time {
        self.state = State::Connecting;
        now + self.backoff.max(SHORTEST)
    }

    pub(crate) fn succeed(&mut self, now: Time) {
        self.state = State::Active;
        self.connected = Some(now);
    }

    /// A call has failed, or a connection has ended. When the next call begins.
    pub(crate) fn fail(&mut self, now: Time, why: String) -> Time {
        let lasted = self.connected.filter(|_| self.state == State::Active).map(|since| now.since(since));
        if lasted.is_some() {
            self.disconnected = Some(now);
        }
        self.backoff = match lasted {
            Some(lasted) if lasted >= self.backoff => SHORTEST,
            _ => (self.backoff * 2).clamp(SHORTEST, self.longest),
        };
        self.state = State::Backoff;
        self.last_error = Some(why);
        now + self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_time_between_calls_doubles_and_is_short_again_after_success() {
        let mut attempts = Attempts::new(Duration::from_secs(8));
        let mut now = Time::ZERO;
        let mut begun = Vec::new();
        for _ in 0..6 {
            begun.push(now);
            assert!(attempts.begin(now) > now);
            now = attempts.fail(now, "refused".into());
        }
        assert_eq!(begun, [0, 1, 3, 7, 15, 23].map(seconds));
        assert_eq!((attempts.state, attempts.last_error.as_deref()), (State::Backoff, Some("refused")));

        // A connection that was closed at once is no success.
        attempts.begin(seconds(100));
        attempts.succeed(seconds(100));
        assert_eq!((attempts.state, attempts.connected), (State::Active, Some(seconds(100))));
        assert_eq!(attempts.fail(seconds(101), "closed".into()), seconds(109));
        assert_eq!(attempts.disconnected, Some(seconds(101)));
        attempts.begin(seconds(109));
        attempts.succeed(seconds(109));
        assert_eq!(attempts.fail(seconds(117), "closed".into()), seconds(118));
        assert_eq!(attempts.fail(seconds(118), "closed".into()), seconds(120));
    }

    #[test]
    fn there_is_a_second_between_calls_at_least() {
        let mut attempts = Attempts::new(Duration::ZERO);
        for _ in 0..3 {
            attempts.begin(Time::ZERO);
            assert_eq!(attempts.fail(Time::ZERO, "closed".into()), seconds(1));
        }
    }
}
