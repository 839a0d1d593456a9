//! What a child process must not touch, nor keep.
//!
//! A process that forks passes on copies of its open databases, whose files are still the parent's: a child that went on
//! with them would ruin them. So it lets go of them as they are, and a connection that it goes on using opens its own,
//! unless it was in the middle of a transaction. The child closes its copies of what would
//! make others believe that its parent still has a database when that is gone.
//!
//! The child has one thread. A lock that another thread of its parent held is held for ever in it. So what a child needs to open a database is
//! held by the thread that forks, SQLite's own mutexes included, and what is the parent's is not asked.

use crate::codes::{Failure, NOMEM};
use crate::markers;
use crate::registry::{self, Databases};
use fulmar_locks::{Mutex, MutexGuard};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// SQLite's static mutexes (`sqlite3_mutex_alloc`) that it takes by itself, those before others that it takes while it holds them: of shared
/// caches, of files, of chance, of what there is one of, of caches of pages (2), and of memory.
const SQLITES: [c_int; 7] = [4, 11, 5, 2, 6, 7, 3];

/// Held while this process forks, so that no number in it stands for another file already.
static CLOSED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// What a thread that forks holds.
struct Locks {
    opening: MutexGuard<'static, Option<Generation>>,
    databases: MutexGuard<'static, Databases>,
    closed: MutexGuard<'static, Vec<RawFd>>,
}

thread_local! {
    /// From before this thread forks until it has. Without a destructor, it is there as long as the thread.
    static HELD: Cell<Option<ManuallyDrop<Locks>>> = const { Cell::new(None) };
}

unsafe extern "C" {
    fn close(file: c_int) -> c_int;
    fn sqlite3_randomness(count: c_int, bytes: *mut c_void);
    fn sqlite3_mutex_alloc(which: c_int) -> *mut c_void;
    fn sqlite3_mutex_enter(mutex: *mut c_void);
    fn sqlite3_mutex_leave(mutex: *mut c_void);
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

/// A file of which a child process closes its copy. To be dropped before the file is closed.
pub(crate) struct ClosedInChild(RawFd);

impl ClosedInChild {
    pub(crate) fn new(file: RawFd) -> Self {
        CLOSED.lock().push(file);
        Self(file)
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        CLOSED.lock().retain(|file| *file != self.0);
    }
}

/// Sees to it that forks are counted: a child that took its parent's databases for its own would ruin them.
pub(crate) fn watch() -> Result<(), Failure> {
    static WATCHED: OnceLock<bool> = OnceLock::new();
    let is_watched = WATCHED.get_or_init(|| {
        // Nobody has told of forks before this.
        renew_chance();
        // SAFETY: the three functions live as long as the program, and do what may be done around a fork.
        unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) == 0 }
    });
    if *is_watched { Ok(()) } else { Err(Failure::new(NOMEM, "no memory to be told of forks")) }
}

/// Has SQLite seed its generator anew in a process that has inherited it. Otherwise each child would go on to draw what the
/// others draw, and keys that are made by `randomblob()` would not be unique. SQLite itself does so when it opens a file.
fn renew_chance() {
    // SAFETY: SQLite is initialized, as a database is being opened or has been; without a place for bytes it forgets its seed.
    unsafe { sqlite3_randomness(0, std::ptr::null_mut()) };
}

extern "C" fn prepare() {
    let (opening, databases, closed) = (markers::hold(), registry::hold(), CLOSED.lock());
    HELD.set(Some(ManuallyDrop::new(Locks { opening, databases, closed })));
    for which in SQLITES {
        // SAFETY: SQLite has these mutexes as long as the program lives; it says null, and takes that, if it was told to use none.
        unsafe { sqlite3_mutex_enter(sqlite3_mutex_alloc(which)) };
    }
}

/// Ends what `prepare` began, in the thread that called it or a copy of that, once the files are seen to whose copies a child closes.
///
/// # Safety
/// That was called just before.
unsafe fn release(see_to: impl FnOnce(&mut Vec<RawFd>)) {
    for which in SQLITES.into_iter().rev() {
        // SAFETY: as in `prepare`, which has entered it. They are not recursive, so the copy of a thread may leave them for it.
        unsafe { sqlite3_mutex_leave(sqlite3_mutex_alloc(which)) };
    }
    if let Some(held) = HELD.take() {
        let Locks { opening, databases, mut closed } = ManuallyDrop::into_inner(held);
        see_to(&mut closed);
        drop((closed, databases, opening));
    }
}

extern "C" fn parent() {
    // SAFETY: `prepare` was called by this thread just before.
    unsafe { release(|_| ()) };
}

extern "C" fn child() {
    FORKS.fetch_add(1, Relaxed);
    // SAFETY: as in `parent`: the only thread of the child is a copy of that one. The files are copies of the parent's,
    // open until now, and whatever else names them here is forgotten and never used.
    unsafe {
        release(|files| {
            for file in files.drain(..) {
                close(file);
            }
        });
    }
    renew_chance();
}
