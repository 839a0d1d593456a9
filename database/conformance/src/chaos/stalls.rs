//! Whether the machine itself stood still: a pause then says nothing of the servers.

use super::history::Time;
use super::now;
use fulmar_locks::Mutex;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// How long the watcher sleeps.
const SLEEP: Duration = Duration::from_millis(10);
/// Microseconds by which it wakes late at least, if that is noted: two processors with some processes each are no standstill.
const LATE: Time = 100_000;

/// When somebody who had nothing to do but to wake was late: from when on it was due, and when it woke. Watched until dropped.
#[derive(Debug)]
pub(super) struct Stalls(Arc<Mutex<Vec<(Time, Time)>>>);

impl Stalls {
    pub(super) fn watch() -> Self {
        let stalls = Arc::default();
        let watched = Arc::downgrade(&stalls);
        thread::spawn(move || watch(&watched));
        Self(stalls)
    }

    /// The longest that lies within `from..to`, also in part.
    pub(super) fn longest(&self, from: Time, to: Time) -> Duration {
        longest(&self.0.lock(), from, to)
    }
}

fn watch(stalls: &Weak<Mutex<Vec<(Time, Time)>>>) {
    let mut due = now();
    while let Some(stalls) = stalls.upgrade() {
        let woken = now();
        if woken.saturating_sub(due) > LATE {
            stalls.lock().push((due, woken));
        }
        due = now() + Time::try_from(SLEEP.as_micros()).unwrap_or(Time::MAX);
        thread::sleep(SLEEP);
    }
}

fn longest(stalls: &[(Time, Time)], from: Time, to: Time) -> Duration {
    let within = |(begin, end): &(Time, Time)| (*end).min(to).saturating_sub((*begin).max(from));
    Duration::from_micros(stalls.iter().map(within).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_counts() {
        let stalls = [(10, 30), (100, 150), (200, 400)];
        assert_eq!(longest(&stalls, 0, 1_000), Duration::from_micros(200));
        assert_eq!(longest(&stalls, 20, 250), Duration::from_micros(50));
        assert_eq!(longest(&stalls, 40, 90), Duration::ZERO);
        assert_eq!(longest(&[], 0, 1_000), Duration::ZERO);
    }
}
