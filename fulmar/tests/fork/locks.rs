//! Children that are forked while another thread of their parent holds what SQLite holds now and then.

use crate::{PATIENCE, alone, count, fork, wait};
use rusqlite::Connection;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

unsafe extern "C" {
    fn sqlite3_mutex_alloc(which: c_int) -> *mut c_void;
    fn sqlite3_mutex_enter(mutex: *mut c_void);
    fn sqlite3_mutex_leave(mutex: *mut c_void);
}

/// SQLite's static mutexes, without those for applications.
const MUTEXES: [c_int; 7] = [2, 3, 4, 5, 6, 7, 11];
/// For how long a thread holds one once it may be in the way. The fork waits for that.
const TURNS: u32 = 20_000;

/// Runs `work` while another thread holds a mutex of SQLite's for a while.
fn while_held<T>(which: c_int, work: impl FnOnce() -> T) -> T {
    let is_held = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: SQLite has it as long as the program lives.
            let mutex = unsafe { sqlite3_mutex_alloc(which) };
            // SAFETY: this thread leaves what it enters, and asks SQLite for nothing meanwhile.
            unsafe { sqlite3_mutex_enter(mutex) };
            is_held.store(true, SeqCst);
            (0..TURNS).for_each(|_| thread::yield_now());
            // SAFETY: as above.
            unsafe { sqlite3_mutex_leave(mutex) };
        });
        while !is_held.load(SeqCst) {
            thread::yield_now();
        }
        work()
    })
}

#[test]
fn a_child_waits_for_no_mutex_of_its_parents_sqlite() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let name = format!("fulmar:{}/db", directory.path().display());
    let parent = Connection::open(&name).unwrap();
    parent.execute_batch("CREATE TABLE t(a)").unwrap();
    for (rows, which) in (1..).zip(MUTEXES) {
        let child = while_held(which, || {
            fork(|| {
                // SAFETY: whoever waits for ever is ended.
                unsafe { libc::alarm(PATIENCE) };
                let own = Connection::open(&name).unwrap();
                own.execute_batch("INSERT INTO t VALUES (randomblob(20))").unwrap();
                i32::from(count(&own) != Ok(rows))
            })
        });
        assert_eq!(wait(child), 0, "mutex {which}");
    }
}
