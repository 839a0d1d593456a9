//! Turns to answer questions whose answers may be long: all flows, all ports, all tables. One answer is made at a time, and none while those that were
//! made and are not read yet have [so many bytes](ROOM). Who is slow to read, and keeps others waiting, is let go.

use crate::closed::Closed;
use crate::share::FREELY;
use crate::shared::Line;
use fulmar_node::Time;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// So many bytes of answers wait to be read, beyond what each session may have, before the next is made.
const ROOM: usize = 32 << 20;
/// An answer is read so fast at least, bytes a second, after a while, if others wait for theirs.
const RATE: u64 = 4 << 20;
const WHILE: Duration = Duration::from_secs(1);

/// The turns of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_making: bool,
    unread: usize,
    /// In the order in which they get turns.
    waiting: VecDeque<Arc<Line>>,
}

impl State {
    const fn is_free(&self) -> bool {
        !self.is_making && self.unread < ROOM
    }

    fn wake(&self) {
        if self.is_free()
            && let Some(next) = self.waiting.front()
        {
            next.signal.raise();
        }
    }
}

/// A session's place among them, which it gives up when it ends.
pub(crate) struct Listing<'a> {
    listings: &'a Listings,
    line: Arc<Line>,
    is_making: bool,
    /// Of its answers so many bytes are counted, …
    unread: usize,
    /// … and are to be read by then.
    until: Time,
}

impl<'a> Listing<'a> {
    pub(crate) const fn new(listings: &'a Listings, line: Arc<Line>) -> Self {
        Self { listings, line, is_making: false, unread: 0, until: Time::ZERO }
    }

    /// Whether it has the turn.
    pub(crate) const fn is_making(&self) -> bool {
        self.is_making
    }

    /// Takes the turn, if it can be had. If not, the session's signal is raised when it can.
    pub(crate) fn begin(&mut self) -> bool {
        let mut state = self.listings.0.lock();
        let at = state.waiting.iter().position(|line| line.id == self.line.id);
        self.is_making = state.is_free() && at.unwrap_or(state.waiting.len()) == 0;
        match at {
            Some(at) if self.is_making => drop(state.waiting.remove(at)),
            None if !self.is_making => state.waiting.push_back(Arc::clone(&self.line)),
            _ => {}
        }
        state.is_making |= self.is_making;
        self.is_making
    }

    /// The answer is made: so many bytes of the session's answers wait to be read.
    pub(crate) fn made(&mut self, unread: usize, now: Time) {
        self.until = now + WHILE + Duration::from_secs(unread as u64 / RATE);
        self.has_unread(unread);
        let mut state = self.listings.0.lock();
        (self.is_making, state.is_making) = (false, false);
        state.wake();
    }

    /// So many bytes wait by now.
    pub(crate) fn has_unread(&mut self, unread: usize) {
        let counted = unread.saturating_sub(FREELY);
        if counted == self.unread {
            return;
        }
        let mut state = self.listings.0.lock();
        state.unread = state.unread - self.unread + counted;
        self.unread = counted;
        state.wake();
    }

    /// When [`Self::expire`] is to be called, if it is.
    pub(crate) fn deadline(&self) -> Option<Time> {
        (self.unread > 0).then_some(self.until)
    }

    /// # Errors
    /// If it has been too slow to read, and others wait for that.
    pub(crate) fn expire(&mut self, now: Time) -> Result<(), Closed> {
        if self.deadline().is_none_or(|until| now < until) {
            return Ok(());
        }
        let state = self.listings.0.lock();
        if state.unread >= ROOM && !state.waiting.is_empty() {
            return Err(Closed::Slow(self.unread));
        }
        self.until = now + WHILE;
        Ok(())
    }
}

impl Drop for Listing<'_> {
    fn drop(&mut self) {
        let mut state = self.listings.0.lock();
        state.waiting.retain(|line| line.id != self.line.id);
        state.is_making &= !self.is_making;
        state.unread -= self.unread;
        state.wake();
    }
}
