//! Ctrl-C: stops the statement that runs, wherever the signal arrives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle};

/// A handle that stops the running statement. Clones stop the same one.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Of the connection in use; `rusqlite` makes it harmless once that is closed.
    target: Mutex<Option<InterruptHandle>>,
    raised: AtomicBool,
}

impl Interrupt {
    /// From now on an interrupt is meant for this connection.
    pub(crate) fn aim_at(&self, connection: &Connection) {
        let mut target = self.0.target.lock().unwrap_or_else(PoisonError::into_inner);
        *target = Some(connection.get_interrupt_handle());
    }

    /// Stops the running statement, and the script it belongs to.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::Relaxed);
        if let Some(target) = &*self.0.target.lock().unwrap_or_else(PoisonError::into_inner) {
            target.interrupt();
        }
    }

    /// Whether there was an interrupt that nobody has taken notice of.
    pub(crate) fn was_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }

    /// A person has seen it: the next statement runs.
    pub(crate) fn clear(&self) {
        self.0.raised.store(false, Ordering::Relaxed);
    }
}
