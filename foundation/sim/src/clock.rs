//! The clock that a node believes in.

use fulmar_node::Time;

const MILLION: i128 = 1_000_000;

/// A straight line: what the clock showed at one moment, and how fast it goes since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    at: u64,
    shows: u64,
    drift_ppm: i32,
}

impl Clock {
    /// What it shows at the simulator's time `at`, not before it was last set.
    pub(crate) fn shows(&self, at: Time) -> Time {
        let passed = at.as_nanos().saturating_sub(self.at);
        if self.drift_ppm == 0 {
            return Time::from_nanos(self.shows.saturating_add(passed));
        }
        Time::from_nanos(clamp(i128::from(self.shows) + i128::from(passed) * self.pace() / MILLION))
    }

    /// The first moment at which it shows `time` or more.
    pub(crate) fn when(&self, time: Time) -> Time {
        let missing = time.as_nanos().saturating_sub(self.shows);
        if self.drift_ppm == 0 {
            return Time::from_nanos(self.at.saturating_add(missing));
        }
        let wait = (i128::from(missing) * MILLION + self.pace() - 1) / self.pace();
        Time::from_nanos(clamp(i128::from(self.at) + wait))
    }

    /// Lets it leap forward now, and go faster by so many millionths from now on.
    pub(crate) fn set(&mut self, at: Time, leap: u64, drift_ppm: i32) {
        assert!(drift_ppm > -1_000_000, "a clock that drifts by {drift_ppm} millionths would not go forward");
        let shows = self.shows(at).as_nanos().saturating_add(leap);
        *self = Self { at: at.as_nanos(), shows, drift_ppm };
    }

    /// How far it goes in a million nanoseconds.
    fn pace(&self) -> i128 {
        MILLION + i128::from(self.drift_ppm)
    }
}

fn clamp(n: i128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_never_goes_back_and_deadlines_are_never_early() {
        let mut clock = Clock::default();
        let mut before = Time::ZERO;
        for (second, drift) in [(1, 0), (2, 250), (3, -400_000), (4, 7), (5, 900_001), (6, -3)] {
            let at = Time::from_nanos(second * 1_000_000_000);
            assert!(clock.shows(at) >= before);
            before = clock.shows(at);
            clock.set(at, second * 1_000, drift);
            assert_eq!(clock.shows(at).as_nanos(), before.as_nanos() + second * 1_000);
            for ahead in [0, 1, 999, 1_000_000_007] {
                let deadline = Time::from_nanos(clock.shows(at).as_nanos() + ahead);
                let when = clock.when(deadline);
                assert!(clock.shows(when) >= deadline);
                assert!(when <= at || clock.shows(Time::from_nanos(when.as_nanos() - 1)) < deadline);
            }
            before = clock.shows(at);
        }
        assert_eq!(clock.when(Time::MAX), Time::MAX);
    }
}
