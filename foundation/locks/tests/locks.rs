//! What is promised beyond the standard library's locks.

use fulmar_locks::{Mutex, RwLock};
use std::thread;

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
