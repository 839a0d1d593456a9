//! A lock that who reads may read again, and that who wants to write waits for only so long.
#![expect(unsafe_code, reason = "a value that many read or one writes to")]

use crate::{Condvar, Mutex};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Instant;

/// In the state: somebody waits to write. Readers that come then wait, unless others read.
const WAITS: usize = 1 << (usize::BITS - 1);
/// In the state: somebody writes.
const WRITES: usize = 1 << (usize::BITS - 2);
/// In the state: how many read. Of a reader that finds that it may not, one too many for a moment.
const READERS: usize = WRITES - 1;

/// Many read the value, or one writes to it. Unlike a [`RwLock`](crate::RwLock), it may be read by a thread that reads it already.
///
/// Nobody reads or writes for ever on end: who wants to write is next when all that read have stopped.
#[derive(Default)]
pub struct RecursiveRwLock<T> {
    state: AtomicUsize,
    /// Held by who goes to sleep, from when it has seen why.
    asleep: Mutex<()>,
    changed: Condvar,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes to another thread with the lock, and by a guard for writing.
unsafe impl<T: Send> Send for RecursiveRwLock<T> {}
// SAFETY: as the line above; and several threads may read the value at once.
unsafe impl<T: Send + Sync> Sync for RecursiveRwLock<T> {}

impl<T> RecursiveRwLock<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            changed: Condvar::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until nobody writes, nor waits to while nobody reads.
    #[inline]
    pub fn read(&self) -> RecursiveReadGuard<'_, T> {
        let before = self.state.fetch_add(1, Acquire);
        if before & (WAITS | WRITES) != 0 {
            self.read_beside_who_writes(before);
        }
        RecursiveReadGuard { lock: self }
    }

    #[cold]
    fn read_beside_who_writes(&self, before: usize) {
        if may_read(before) {
            return;
        }
        self.stop_reading();
        let mut asleep = self.asleep.lock();
        loop {
            let state = self.state.load(Relaxed);
            if !may_read(state) {
                asleep = self.changed.wait(asleep);
            } else if self.state.compare_exchange(state, state + 1, Acquire, Relaxed).is_ok() {
                return;
            }
        }
    }

    #[inline]
    fn stop_reading(&self) {
        if self.state.fetch_sub(1, Release) == WAITS + 1 {
            self.wake();
        }
    }

    /// Waits until nobody has it; nothing, if that takes longer than until then. From now on others read only while somebody does.
    pub fn write_until(&self, until: Instant) -> Option<RecursiveWriteGuard<'_, T>> {
        let is_wanted = |(): &mut ()| self.state.load(Relaxed) & (WAITS | WRITES) != 0;
        let mut asleep = self.changed.wait_while_until(self.asleep.lock(), is_wanted, until);
        if is_wanted(&mut asleep) {
            return None;
        }
        // Whoever else wants to write sees it: it has the same mutex then.
        self.state.fetch_or(WAITS, Relaxed);
        let is_read = |(): &mut ()| self.state.compare_exchange(WAITS, WRITES, Acquire, Relaxed).is_err();
        let asleep = self.changed.wait_while_until(asleep, is_read, until);
        let writes = self.state.load(Relaxed) & WRITES != 0;
        drop(asleep);
        if !writes {
            self.state.fetch_and(!WAITS, Relaxed);
            self.wake();
        }
        writes.then(|| RecursiveWriteGuard { lock: self })
    }

    #[cold]
    fn wake(&self) {
        // Who has looked at the state before it changed sleeps by now.
        drop(self.asleep.lock());
        self.changed.notify_all();
    }
}

/// Whether one more may read.
const fn may_read(state: usize) -> bool {
    state & WRITES == 0 && (state & WAITS == 0 || state & READERS > 0)
}

/// The value, to be read.
pub struct RecursiveReadGuard<'l, T> {
    lock: &'l RecursiveRwLock<T>,
}

impl<T> Deref for RecursiveReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this reader is counted, and nobody writes while any is.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for RecursiveReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.stop_reading();
    }
}

/// The value, to be written to.
pub struct RecursiveWriteGuard<'l, T> {
    lock: &'l RecursiveRwLock<T>,
}

impl<T> Deref for RecursiveWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the state says that somebody writes, which is this one; nobody reads then.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for RecursiveWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for RecursiveWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.fetch_and(!WRITES, Release);
        self.lock.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn who_waits_too_long_does_not_write() {
        let lock = RecursiveRwLock::new(1);
        let first = lock.read();
        assert!(lock.write_until(Instant::now()).is_none());
        drop((lock.read(), first));
        let writes = lock.write_until(Instant::now());
        assert!(writes.is_some() && lock.write_until(Instant::now()).is_none());
        drop(writes);
        assert_eq!(*lock.read(), 1);
    }

    /// A reader that waited for a writer that waits for it would wait for ever.
    #[test]
    fn who_reads_reads_again_before_who_waits_to_write() {
        let lock = RecursiveRwLock::new(1);
        thread::scope(|scope| {
            let outer = lock.read();
            scope.spawn(|| {
                *lock.write_until(Instant::now() + Duration::from_secs(60)).expect("in time") += 1;
            });
            while lock.state.load(Relaxed) & WAITS == 0 {
                thread::yield_now();
            }
            assert_eq!((*lock.read(), *outer), (1, 1));
            drop(outer);
            assert_eq!(*lock.read(), 2, "who waits to write is next");
        });
    }

    #[test]
    fn nobody_reads_what_is_half_written() {
        let lock = RecursiveRwLock::new((0_u32, 0_u32));
        let rounds: u32 = if cfg!(miri) { 30 } else { 20_000 };
        let written: u32 = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let (outer, inner) = (lock.read(), lock.read());
                        assert!(outer.0 == outer.1 && *inner == *outer);
                    }
                });
            }
            let write = |_| {
                scope.spawn(|| {
                    let mut written = 0;
                    for round in 0..rounds {
                        let wait = Duration::from_micros(u64::from(round % 100));
                        if let Some(mut value) = lock.write_until(Instant::now() + wait) {
                            value.0 += 1;
                            thread::yield_now();
                            value.1 += 1;
                            written += 1;
                        }
                    }
                    written
                })
            };
            let writers: Vec<_> = (0..2).map(write).collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).sum()
        });
        assert_eq!(*lock.read(), (written, written));
        assert!(written > 0);
        assert_eq!(lock.state.load(Relaxed), 0);
    }
}
