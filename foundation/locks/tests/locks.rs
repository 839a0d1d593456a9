//! What is promised beyond the standard library's locks.

use fulmar_locks::{Condvar, Mutex, RwLock};
use std::sync::Arc;
use std::thread;

/// Two threads take turns, each waiting for the other.
fn take_turns(rounds: u32) {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let other = {
        let turn = Arc::clone(&turn);
        thread::spawn(move || play(&turn, rounds, 1))
    };
    play(&turn, rounds, 0);
    other.join().expect("the other thread has ended");
}

fn play((turn, changed): &(Mutex<u32>, Condvar), rounds: u32, who: u32) {
    for _ in 0..rounds {
        let mut turn = changed.wait_while(turn.lock(), |turn| *turn % 2 != who);
        *turn += 1;
        changed.notify_one();
    }
}

/// With `parking_lot`'s locks one child in thirty hung.
#[test]
#[expect(unsafe_code, reason = "there is no other way to fork")]
fn a_child_of_fork_waits_and_is_woken() {
    // They run to the end of the process.
    for _ in 0..3 {
        thread::spawn(|| {
            loop {
                take_turns(50);
            }
        });
    }
    for child in 0..300 {
        // SAFETY: the child calls what is tested here, and ends without returning; memory and threads are in order in a child of
        // this C library, which holds their locks while it forks.
        let status = unsafe {
            let process = libc::fork();
            if process == 0 {
                libc::alarm(20);
                take_turns(100);
                libc::_exit(0);
            }
            assert!(process > 0, "no child");
            let mut status = 0;
            assert_eq!(libc::waitpid(process, &raw mut status, 0), process);
            status
        };
        assert_eq!(status, 0, "child {child} has not ended: {status:#x}");
    }
}

#[test]
fn a_lock_whose_holder_panicked_is_free() {
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    let panicked = thread::scope(|scope| {
        scope
            .spawn(|| {
                let (mut mutex, mut lock) = (mutex.lock(), lock.write());
                (*mutex, *lock) = (2, 2);
                panic!("as planned");
            })
            .join()
    });
    assert!(panicked.is_err());
    assert_eq!((*mutex.lock(), *lock.read()), (2, 2));
    assert!(mutex.try_lock().is_some() && lock.try_read().is_some() && lock.try_write().is_some());
}

#[test]
fn what_somebody_has_is_not_got_by_trying() {
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    let (_held, _read) = (mutex.lock(), lock.read());
    assert!(mutex.try_lock().is_none() && lock.try_write().is_none() && lock.try_read().is_some());
}
