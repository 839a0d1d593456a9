//! Locks in the children of a process whose threads wait for each other. Alone in its process, as no thread may begin or end there while it forks:
//! the standard library holds a lock of its own then, which a child inherits.

use fulmar_locks::{Condvar, Mutex};
use std::sync::{Arc, Barrier};
use std::thread;

const PAIRS: usize = 3;

/// Two threads that take turns, each waiting for the other.
#[derive(Default)]
struct Game(Mutex<u64>, Condvar);

impl Game {
    /// What one of the two does so often.
    fn play(&self, rounds: u64, who: u64) {
        for _ in 0..rounds {
            let mut turn = self.1.wait_while(self.0.lock(), |turn| *turn % 2 != who);
            *turn += 1;
            self.1.notify_one();
        }
    }
}

/// With `parking_lot`'s locks one child in thirty hung.
#[test]
#[expect(unsafe_code, reason = "there is no other way to fork")]
fn a_child_of_fork_waits_and_is_woken() {
    let begun = Arc::new(Barrier::new(2 * PAIRS + 1));
    for _ in 0..PAIRS {
        let game = Arc::new(Game::default());
        for who in 0..2 {
            let (game, begun) = (Arc::clone(&game), Arc::clone(&begun));
            // To the end of the process.
            thread::spawn(move || {
                begun.wait();
                game.play(u64::MAX, who);
            });
        }
    }
    begun.wait();
    for child in 0..300 {
        // SAFETY: the child calls what is tested here, and ends without returning; memory and threads are in order in a child of
        // this C library, which holds their locks while it forks.
        let status = unsafe {
            let process = libc::fork();
            if process == 0 {
                libc::alarm(20);
                let game = Game::default();
                thread::scope(|scope| {
                    scope.spawn(|| game.play(100, 1));
                    game.play(100, 0);
                });
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
