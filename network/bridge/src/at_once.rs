//! What the kernel has each caller wait for, done many at once: a socket of packets opens and closes when all processors have seen it.

use parking_lot::Mutex;

/// So many at once.
const THREADS: usize = 64;

/// Does it with each of these, and returns when all is done.
pub(crate) fn for_each<T: Send>(all: Vec<T>, act: impl Fn(T) + Sync) {
    let threads = all.len().min(THREADS);
    let left = Mutex::new(all.into_iter());
    // The lock is free again when one is acted on.
    let next = || left.lock().next();
    let act_on_some = || {
        while let Some(one) = next() {
            act(one);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // One that cannot be started leaves its part to the others.
            drop(std::thread::Builder::new().spawn_scoped(scope, act_on_some));
        }
        act_on_some();
    });
}
