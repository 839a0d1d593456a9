//! Who may write now. Ordinary writers never wait for each other; there are two exceptions.
//!
//! `BEGIN EXCLUSIVE` is alone: it begins when no writer is active, and none begins before it ends. (Nobody sleeps here
//! for it: the caller asks again, through SQLite's busy handler.)
//!
//! Statements that lost a conflict run again one at a time, or else a row that many change at once would make them lose
//! to each other for ever. Those that keep losing even so *press*: statements about to start let them pass first. This
//! is a courtesy, with a bound on the wait, so it cannot block anybody for good.
//!
//! *Known as:* admission of writers.

use fulmar_locks::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest that a statement queues to run again behind another.
const LONGEST_QUEUE: Duration = Duration::from_secs(1);
/// The longest that a statement which has not lost yet lets a pressing one pass.
const LONGEST_COURTESY: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    freed: Condvar,
    pressing: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Write transactions that are open, an exclusive one included.
    writers: u32,
    exclusive: bool,
    /// Whether some statement is running again.
    retrying: bool,
}

impl Turns {
    /// Registers a writer; `false` if it has to ask again later.
    pub(crate) fn begin(&self, exclusive: bool) -> bool {
        let mut state = self.state.lock();
        if state.exclusive || (exclusive && state.writers > 0) {
            return false;
        }
        state.writers += 1;
        state.exclusive = exclusive;
        true
    }

    /// Makes a writer that is already registered the only one; `false` if there are others.
    pub(crate) fn become_exclusive(&self) -> bool {
        let mut state = self.state.lock();
        if state.writers == 1 {
            state.exclusive = true;
        }
        state.exclusive
    }

    /// Ends what `become_exclusive` began, and stays a writer.
    pub(crate) fn become_shared(&self) {
        self.state.lock().exclusive = false;
    }

    /// Ends what `begin` allowed.
    pub(crate) fn end(&self, exclusive: bool) {
        let mut state = self.state.lock();
        state.writers -= 1;
        if exclusive {
            state.exclusive = false;
        }
    }

    /// Waits for the turn to run a statement again; `false` if that took too long, and it goes ahead without.
    pub(crate) fn queue_to_retry(&self) -> bool {
        let mut state = self.freed.wait_while_for(self.state.lock(), |state| state.retrying, LONGEST_QUEUE);
        !std::mem::replace(&mut state.retrying, true)
    }

    /// Asks those who start to let the statement that is running again pass.
    pub(crate) fn press(&self) {
        self.pressing.store(true, Ordering::Relaxed);
    }

    /// Gives the turn to the next.
    pub(crate) fn leave_retry(&self) {
        self.state.lock().retrying = false;
        self.pressing.store(false, Ordering::Relaxed);
        self.freed.notify_all();
    }

    /// Lets a pressing statement pass.
    pub(crate) fn let_pass(&self) {
        if self.pressing.load(Ordering::Relaxed) {
            drop(self.freed.wait_while_for(self.state.lock(), |state| state.retrying, LONGEST_COURTESY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_is_alone() {
        let turns = Turns::default();
        assert!(turns.begin(false) && turns.begin(false));
        assert!(!turns.begin(true));
        turns.end(false);
        assert!(turns.become_exclusive());
        assert!(!turns.begin(false));
        turns.end(true);
        assert!(turns.begin(true) && !turns.begin(true));
    }

    #[test]
    fn one_retries_at_a_time() {
        let turns = Turns::default();
        assert!(turns.queue_to_retry());
        turns.leave_retry();
        assert!(turns.queue_to_retry());
    }
}
