//! Locks that a child of `fork` may use: the standard library's, without poisoning.
//!
//! *Known as:* mutex, condition variable, read-write lock; fork safety.
//!
//! Fulmar runs in its user's process, and that may fork while other threads use a database. The child has one thread, and memory as it was.
//! `parking_lot` keeps one table per process of all threads that wait. The child inherits it with its parent's threads in it: it
//! hands a lock to one of them, or waits for the lock of a bucket that one of them held, and hangs (1 of 30 children of a parent with three threads that
//! wait for each other all the time). The standard library's locks are a word each, on which the kernel lets threads wait (`futex(2)`), and share
//! nothing.
//!
//! ```
//! use fulmar_locks::{Condvar, Mutex};
//!
//! let (ready, changed) = (Mutex::new(false), Condvar::new());
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         *ready.lock() = true;
//!         changed.notify_one();
//!     });
//!     let is_ready = changed.wait_while(ready.lock(), |ready| !*ready);
//!     assert!(*is_ready);
//! });
//! ```
//!
//! # What is guaranteed
//!
//! A lock that nobody held when the process forked works in the child. One that another thread held is held for ever there: whoever may be asked
//! by a child holds it while it forks, or has another for each process. The standard library does not do so with one of its own, which it takes when a
//! thread of a program with Rust's `main` begins or ends: a child that was forked just then hangs when it begins a thread.
//!
//! A [`RecursiveRwLock`] is for who may read what it reads already, and for who wants to write and waits only so long: the standard library has none.
//!
//! A lock whose holder panicked is free, and what it guards is as it was left. Not guaranteed: the order in which those that wait go on.

mod recursive;

pub use recursive::{RecursiveReadGuard, RecursiveRwLock, RecursiveWriteGuard};

use std::fmt;
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// One at a time has the value.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until it is free. A thread that has it already waits for ever, or panics.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        unless_taken(self.0.try_lock())
    }

    /// The value of a lock that nobody else knows.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Many read the value, or one writes to it.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes. A thread that has it already may wait for ever: others that want to write go first.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody has it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value to read, if nobody writes or wants to.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        unless_taken(self.0.try_read())
    }

    /// The value to write to, if nobody has it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        unless_taken(self.0.try_write())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// For what those who have a [`Mutex`] wait.
#[derive(Default, Debug)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Lets go of the lock until it is notified, or for no reason.
    pub fn wait<'m, T>(&self, held: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.0.wait(held).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the lock while the condition holds; it is asked when this begins and whenever it is notified.
    pub fn wait_while<'m, T>(
        &self,
        held: MutexGuard<'m, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'m, T> {
        self.0.wait_while(held, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`wait_while`](Self::wait_while), but no longer than that.
    pub fn wait_while_for<'m, T>(
        &self,
        held: MutexGuard<'m, T>,
        condition: impl FnMut(&mut T) -> bool,
        longest: Duration,
    ) -> MutexGuard<'m, T> {
        self.0.wait_timeout_while(held, longest, condition).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Like [`wait_while`](Self::wait_while), but not beyond that moment.
    pub fn wait_while_until<'m, T>(
        &self,
        held: MutexGuard<'m, T>,
        condition: impl FnMut(&mut T) -> bool,
        end: Instant,
    ) -> MutexGuard<'m, T> {
        self.wait_while_for(held, condition, end.saturating_duration_since(Instant::now()))
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

fn unless_taken<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
