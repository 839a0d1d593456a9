//! What a statement waits for, for whoever sits before the terminal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who was not told to wait for so long waits for something else.
const PAUSE: Duration = Duration::from_secs(3);
/// The same is not said again earlier.
const AGAIN: Duration = Duration::from_secs(10);

/// A wait that may be for several servers at once, each for a reason of its own.
struct Wait {
    began: Instant,
    told: Instant,
    /// When each reason was said.
    said: BTreeMap<String, Instant>,
}

impl Wait {
    fn at(now: Instant) -> Self {
        Self { began: now, told: now, said: BTreeMap::new() }
    }

    /// The line for a reason, if that is to be said now.
    fn line(&mut self, why: &str, now: Instant) -> Option<String> {
        if now.duration_since(self.told) > PAUSE {
            *self = Self::at(now);
        }
        self.told = now;
        if self.said.get(why).is_some_and(|said| now.duration_since(*said) < AGAIN) {
            return None;
        }
        self.said.insert(why.to_owned(), now);
        let waited = match now.duration_since(self.began).as_secs() {
            0 => String::new(),
            seconds => format!(" for {seconds} s"),
        };
        Some(format!("waiting{waited}: {why}"))
    }
}

/// Says what a statement waits for, and how long it has: once for each reason, and again when that goes on.
pub(super) fn say(why: &str) {
    static WAIT: Mutex<Option<Wait>> = Mutex::new(None);
    let now = Instant::now();
    let mut wait = WAIT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = wait.get_or_insert_with(|| Wait::at(now)).line(why, now) {
        eprintln!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_and_again_if_the_wait_is_long() {
        let begin = Instant::now();
        let mut wait = Wait::at(begin);
        let mut at = |tenths: u64, why| wait.line(why, begin + Duration::from_millis(100 * tenths));
        assert_eq!(at(0, "one"), Some("waiting: one".into()));
        assert_eq!(at(9, "other"), Some("waiting: other".into()));
        for tenths in (10..100).step_by(10) {
            assert_eq!((at(tenths, "one"), at(tenths + 9, "other")), (None, None));
        }
        assert_eq!(at(100, "one"), Some("waiting for 10 s: one".into()));
        assert_eq!(at(110, "other"), Some("waiting for 11 s: other".into()));
        assert_eq!(at(150, "one"), Some("waiting: one".into()), "a later statement's");
    }
}
