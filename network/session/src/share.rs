//! What all sessions of a switch keep together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A session may keep so many bytes whatever others keep …
pub(crate) const FREELY: usize = 128 << 10;
/// … and what is beyond that is so much for all.
const ALL: usize = 32 << 20;

/// What all sessions of a switch keep, of each kind.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Bundles that are not carried out, and requests that have not ended.
    pub(crate) unfinished: Pool,
    /// Packets and notices that are not sent.
    pub(crate) unread: Pool,
}

/// How many bytes all sessions keep, beyond what each may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<AtomicUsize>);

/// A session's part of that, which it gives back when it ends.
#[derive(Debug)]
pub(crate) struct Share {
    pool: Pool,
    taken: usize,
}

impl Share {
    pub(crate) const fn new(pool: Pool) -> Self {
        Self { pool, taken: 0 }
    }

    /// Whether so many bytes may be kept. If not, it is as it was.
    pub(crate) fn keep(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREELY);
        let all = &self.pool.0;
        if wanted <= self.taken {
            all.fetch_sub(self.taken - wanted, Ordering::Relaxed);
        } else {
            let more = wanted - self.taken;
            let taken = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                Some(taken + more).filter(|taken| *taken <= ALL)
            });
            if taken.is_err() {
                return false;
            }
        }
        self.taken = wanted;
        true
    }

    /// Nothing is kept any more.
    pub(crate) fn give_back(&mut self) {
        self.pool.0.fetch_sub(std::mem::take(&mut self.taken), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_is_always_kept_and_much_by_few() {
        let pool = Pool::default();
        let [mut first, mut second] = [(); 2].map(|()| Share::new(pool.clone()));
        assert!(first.keep(ALL) && first.keep(ALL + FREELY));
        assert!(!first.keep(ALL + FREELY + 1) && !second.keep(FREELY + 1));
        assert!(second.keep(FREELY));
        assert!(first.keep(ALL) && second.keep(2 * FREELY) && !second.keep(2 * FREELY + 1));
        drop(first);
        assert!(second.keep(ALL));
        drop(second);
        assert_eq!(pool.0.load(Ordering::Relaxed), 0);
    }
}
