//! What a child process must not touch.
//!
//! A process that forks passes on copies of its open databases, whose files are still the parent's: a child that went on
//! with them would ruin them. So it lets go of them as they are, and may open its own.

use crate::store;
use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

/// Marks what belongs to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Generation(u32);

impl Generation {
    /// This process's.
    pub(crate) fn current() -> Self {
        Self(FORKS.load(Relaxed))
    }

    /// Whether it is another process's.
    pub(crate) fn is_past(self) -> bool {
        self != Self::current()
    }
}

/// Sees to it that forks are counted.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the three functions live as long as the program, and do what may be done around a fork. If memory is
        // short, forks are not counted, as if there were none.
        let _ = unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

extern "C" fn prepare() {
    store::hold_registry();
}

extern "C" fn parent() {
    // SAFETY: `prepare` was called by this thread just before.
    unsafe { store::release_registry() };
}

extern "C" fn child() {
    FORKS.fetch_add(1, Relaxed);
    // SAFETY: as in `parent`: the only thread of the child is a copy of that one.
    unsafe { store::release_registry() };
}
