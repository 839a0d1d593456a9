//! How long a leader may be silent, as users set it.

use crate::Options;
use std::str::FromStr;
use std::time::Duration;

/// So many signs a leader gives within its time-out…
const SIGNS: u32 = 6;
/// …and no fewer than one in this time: the others may be set to less.
const LONGEST_HEARTBEAT: Duration = Duration::from_millis(50);

/// How long a leader may give no sign before a follower wants another.
///
/// Members of a group may be set differently, and each goes by its own. A leader is replaced when f + 1 want another; and whatever it is
/// set to, its signs come often enough for those that are set to the shortest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderTimeout(Duration);

/// No time-out that a leader can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no time-out for leaders: expected a time from {shortest} to {longest} milliseconds, such as `500ms` or `2s`",
    shortest = LeaderTimeout::SHORTEST.as_millis(),
    longest = LeaderTimeout::LONGEST.as_millis()
)]
pub struct NoLeaderTimeout(pub String);

impl LeaderTimeout {
    /// A network or a disk needs some of it.
    pub const SHORTEST: Duration = Duration::from_millis(100);
    /// Clients do not wait for ever.
    pub const LONGEST: Duration = Duration::from_secs(10);

    /// A time-out of so long.
    ///
    /// # Errors
    /// [`NoLeaderTimeout`] if that is not from [`Self::SHORTEST`] to [`Self::LONGEST`].
    pub fn new(time: Duration) -> Result<Self, NoLeaderTimeout> {
        let is_possible = (Self::SHORTEST..=Self::LONGEST).contains(&time);
        is_possible.then_some(Self(time)).ok_or_else(|| NoLeaderTimeout(format!("{time:?}")))
    }

    /// How long it is.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// How replicas work that are set to it.
    #[must_use]
    pub fn options(self) -> Options {
        let heartbeat = LONGEST_HEARTBEAT.min(self.0 / SIGNS);
        Options { heartbeat, patience: self.0, ..Options::default() }
    }
}

impl Default for LeaderTimeout {
    /// For disks that sync in milliseconds, and machines with more to do.
    fn default() -> Self {
        Self(Duration::from_millis(300))
    }
}

impl FromStr for LeaderTimeout {
    type Err = NoLeaderTimeout;

    /// Digits, and `ms` or `s`.
    fn from_str(text: &str) -> Result<Self, NoLeaderTimeout> {
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit = match unit {
            "ms" => Some(Duration::from_millis(1)),
            "s" => Some(Duration::from_secs(1)),
            _ => None,
        };
        let number = digits.parse().ok();
        let time = unit.zip(number).and_then(|(unit, number)| unit.checked_mul(number));
        time.and_then(|time| Self::new(time).ok()).ok_or_else(|| NoLeaderTimeout(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_others_are_refused_with_the_range() {
        for (text, milliseconds) in [("100ms", 100), ("500ms", 500), ("2s", 2_000), ("10s", 10_000)] {
            let timeout: LeaderTimeout = text.parse().expect("one");
            assert_eq!(timeout.get(), Duration::from_millis(milliseconds));
            let Options { heartbeat, patience, .. } = timeout.options();
            assert!(patience == timeout.get() && heartbeat <= LONGEST_HEARTBEAT && 6 * heartbeat <= patience);
        }
        for text in ["", "500", "ms", "-1s", "0.5s", "99ms", "11s", "1m", "99999999999s", "4294967295s"] {
            let told = text.parse::<LeaderTimeout>().expect_err("none").to_string();
            assert!(
                told.contains(&format!("`{text}`")) && told.contains("from 100 to 10000 milliseconds"),
                "{told}"
            );
        }
    }
}
