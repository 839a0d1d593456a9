//! What a statement waits for, for whoever sits before the terminal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The same is not said again earlier.
const AGAIN: Duration = Duration::from_secs(10);

/// A wait that may be for several servers in turn, each for a reason of its own.
struct Wait {
    lasts: Duration,
    /// After how long each reason was said.
    said: BTreeMap<String, Duration>,
}

impl Wait {
    const NONE: Self = Self { lasts: Duration::ZERO, said: BTreeMap::new() };

    /// The line for a reason after so long, if that is to be said now.
    fn line(&mut self, why: &str, lasts: Duration) -> Option<String> {
        if lasts < self.lasts {
            // For another answer.
            *self = Self::NONE;
        }
        self.lasts = lasts;
        if self.said.get(why).is_some_and(|said| lasts - *said < AGAIN) {
            return None;
        }
        self.said.insert(why.to_owned(), lasts);
        Some(format!("waiting for {:.1} s: {why}", lasts.as_secs_f64()))
    }
}

/// Says what a statement waits for, and how long it has waited for this answer: once for each reason, and again when that goes on.
pub(crate) fn say(why: &str, lasts: Duration) {
    static WAIT: Mutex<Wait> = Mutex::new(Wait::NONE);
    let mut wait = WAIT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = wait.line(why, lasts) {
        eprintln!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_and_again_if_the_wait_is_long() {
        let mut wait = Wait::NONE;
        let mut after = |tenths: u64, why| wait.line(why, Duration::from_millis(100 * tenths));
        assert_eq!(after(5, "one"), Some("waiting for 0.5 s: one".into()));
        assert_eq!(after(9, "other"), Some("waiting for 0.9 s: other".into()));
        for tenths in (10..100).step_by(10) {
            assert_eq!((after(tenths, "one"), after(tenths + 5, "other")), (None, None));
        }
        assert_eq!(after(105, "one"), Some("waiting for 10.5 s: one".into()));
        assert_eq!(after(109, "other"), Some("waiting for 10.9 s: other".into()));
        assert_eq!(after(5, "one"), Some("waiting for 0.5 s: one".into()), "another statement");
    }
}
