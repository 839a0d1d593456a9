//! How many databases are open to be written to at a time.
//!
//! For each fjall has threads, and more files than who reads it. Of a server's databases few are written to at any time, so it needs
//! no more than some of these: whoever is written to beyond that closes the one that was written to the longest ago, which
//! is opened again as soon as it is read or written.
//!
//! *Known as:* a table cache, least recently used.

use super::Trees;
use fulmar_locks::Mutex;
use std::fmt::{Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// How many of the databases that share it are open to be written to at a time; more, if more are written to at one moment.
#[derive(Clone)]
pub struct WriteLimit(Arc<Shared>);

struct Shared {
    most: usize,
    written: Mutex<Vec<Weak<Trees>>>,
    /// Counts writes.
    clock: AtomicU64,
}

impl WriteLimit {
    /// At most so many.
    pub fn of(most: usize) -> Self {
        Self(Arc::new(Shared { most, written: Mutex::default(), clock: AtomicU64::new(1) }))
    }

    /// These are written to now.
    pub(super) fn note(&self, trees: &Trees) {
        trees.written_at.store(self.0.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// These are open to be written to from now on.
    pub(super) fn enter(&self, trees: &Arc<Trees>) {
        self.note(trees);
        let mut written = self.0.written.lock();
        let mut others: Vec<_> = written.iter().filter_map(Weak::upgrade).collect();
        others.retain(|other| other.is_written() && !Arc::ptr_eq(other, trees));
        *written = others.iter().chain([trees]).map(Arc::downgrade).collect();
        drop(written);
        let mut excess = (others.len() + 1).saturating_sub(self.0.most);
        others.sort_by_cached_key(|other| other.written_at.load(Relaxed));
        for other in others {
            if excess == 0 {
                return;
            }
            excess -= usize::from(other.rest());
        }
    }
}

impl Debug for WriteLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WriteLimit").field(&self.0.most).finish()
    }
}
