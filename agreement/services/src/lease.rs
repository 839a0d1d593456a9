//! For how long a session is sure to be there.

use crate::Caller;
use fulmar_locks::{Condvar, Mutex};
use fulmar_replication::applications::{LockAnswer, LockOperation, SessionId};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;

/// So often in the time in which it would expire a session is heard of.
const OFTEN: u32 = 4;

/// How long the machine has been up, and suspended since it was started: the replicas' time goes on while it is, and that of
/// [`Instant`](std::time::Instant) does not.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let part = |part: i64| u64::try_from(part).expect("no machine was started in the future");
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// What its holder knows of a session's end, on any thread.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    expires: Duration,
    /// The holder's. In a child of it nobody keeps the session, and a thread of the parent may have the lock.
    process: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The replicas keep the session until then at least, [since the machine was started](since_boot).
    Until(Duration),
    /// They do not have it any more, or will not be asked again.
    Expired,
    /// Its holder has closed it.
    Closed,
}

impl Lease {
    /// Of a session that was heard of after `asked`, [since the machine was started](since_boot).
    pub(crate) fn new(asked: Duration, expires: Duration) -> Self {
        let state = Mutex::new(State::Until(asked + expires));
        Self(Arc::new(Shared { state, ended: Condvar::new(), expires, process: std::process::id() }))
    }

    /// Whether others may hold its locks now. In a child of the holder's process: its parent does, or nobody.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_inherited() || !matches!(*self.0.state.lock(), State::Until(end) if since_boot() < end)
    }

    /// Returns when the session is no more; whether it has expired, and was not closed by its holder.
    #[must_use]
    pub fn wait(&self) -> bool {
        if self.is_inherited() {
            return true;
        }
        let mut state = self.0.state.lock();
        while let State::Until(end) = *state {
            let rest = end.saturating_sub(since_boot());
            if rest.is_zero() {
                self.set(&mut state, State::Expired);
            } else {
                // Who waits looks often, as a suspended machine does not count this time.
                let rest = rest.min(self.0.expires / OFTEN + Duration::from_millis(1));
                state = self.0.ended.wait_while_for(state, |state| *state == State::Until(end), rest);
            }
        }
        *state == State::Expired
    }

    /// It is closed.
    pub(crate) fn end(&self) {
        if !self.is_inherited() {
            self.set(&mut self.0.state.lock(), State::Closed);
        }
    }

    fn is_inherited(&self) -> bool {
        self.0.process != std::process::id()
    }

    fn set(&self, state: &mut State, next: State) {
        if let State::Until(_) = *state {
            *state = next;
            self.0.ended.notify_all();
        }
    }

    /// Waits until the session is to be heard of again; false if it is over.
    fn rest(&self) -> bool {
        let is_open = |state: &mut State| matches!(state, State::Until(_));
        let state = self.0.ended.wait_while_for(self.0.state.lock(), is_open, self.0.expires / OFTEN);
        matches!(*state, State::Until(end) if since_boot() < end)
    }
}

/// Keeps a session alive until its lease is over.
pub(crate) fn keep(lease: &Lease, mut caller: Caller, session: SessionId) {
    while lease.rest() {
        let asked = since_boot();
        let next = match caller.invoke_lock(&LockOperation::KeepAlive(session)) {
            Ok(LockAnswer::Done) => State::Until(asked + lease.0.expires),
            // What an error leaves of it ends in time by itself.
            Ok(LockAnswer::Gone) => State::Expired,
            Ok(_) | Err(_) => return,
        };
        lease.set(&mut lease.0.state.lock(), next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_unless_it_was_closed() {
        let lease = Lease::new(since_boot(), Duration::ZERO);
        assert!(lease.is_over() && lease.wait());
        lease.end();
        assert!(lease.wait(), "what has expired was not closed");
        let lease = Lease::new(since_boot(), Duration::from_secs(1_000));
        assert!(!lease.is_over());
        let waiting = {
            let lease = lease.clone();
            std::thread::spawn(move || lease.wait())
        };
        lease.end();
        assert!(!waiting.join().expect("it waits") && lease.is_over());
    }
}
