//! Where a thread runs (processor affinity). The system decides that, and may leave all threads on one processor for a long time while hosts have the others.
//!
//! What comes in at a [lane](fulmar_port::packet::open_lanes) was first sent on certain processors: its thread's *home*, where no one need be woken from afar.
//! So threads go home when several have much to do. One that alone has much stays where it is put: at home, there may be who sends all that.

use fulmar_node::Time;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How often a thread looks where it is.
const EVERY: Duration = Duration::from_millis(50);
/// It has much to do if it has moved so many packets since.
const MUCH: usize = 1000;

/// A thread's place among others.
pub(super) struct Affinity {
    number: usize,
    /// By threads' numbers, whether they have much to do.
    busy: Arc<[AtomicBool]>,
    moved: usize,
    next: Time,
}

impl Affinity {
    /// That of the calling thread, which has this number.
    pub(super) fn new(number: usize, busy: Arc<[AtomicBool]>) -> Self {
        Self { number, busy, moved: 0, next: Time::ZERO }
    }

    fn is_at(&self, processor: usize) -> bool {
        processor % self.busy.len() == self.number
    }

    /// To be called after each turn, with how many packets were moved.
    pub(super) fn look(&mut self, now: Time, moved: usize) {
        if self.is_to_go(now, moved, sched_getcpu) {
            self.go();
        }
    }

    fn is_to_go(&mut self, now: Time, moved: usize, processor: impl FnOnce() -> usize) -> bool {
        self.moved += moved;
        if now < self.next {
            return false;
        }
        self.next = now + EVERY;
        let is_busy = std::mem::take(&mut self.moved) >= MUCH;
        self.busy[self.number].store(is_busy, Relaxed);
        let are_others = || {
            let mut others = self.busy.iter().enumerate().filter(|(number, _)| *number != self.number);
            others.any(|(_, is_busy)| is_busy.load(Relaxed))
        };
        is_busy && are_others() && !self.is_at(processor())
    }

    /// Goes home, if the thread may be there, and says whether it does.
    fn go(&self) -> bool {
        let Ok(allowed) = sched_getaffinity(None) else { return false };
        let mut affinity = CpuSet::new();
        (0..CpuSet::MAX_CPU)
            .filter(|processor| allowed.is_set(*processor) && self.is_at(*processor))
            .for_each(|processor| affinity.set(processor));
        // It is there when this returns, and the system may put it elsewhere again.
        let is_there = sched_setaffinity(None, &affinity).is_ok();
        let _ = sched_setaffinity(None, &allowed);
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{Affinity, CpuSet, EVERY, MUCH, sched_getaffinity, sched_setaffinity};
    use fulmar_node::Time;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn affinity(number: usize) -> (Affinity, Arc<[AtomicBool]>) {
        let busy: Arc<[AtomicBool]> = [AtomicBool::new(false), AtomicBool::new(false)].into();
        (Affinity::new(number, busy.clone()), busy)
    }

    #[test]
    fn threads_go_home_when_several_have_much_to_do() {
        let goes = |number: usize, processor: usize, is_other_busy: bool, moved: usize| {
            let (mut affinity, busy) = affinity(number);
            busy[1 - number].store(is_other_busy, Relaxed);
            affinity.next = Time::ZERO + EVERY;
            assert!(!affinity.is_to_go(Time::ZERO, moved, || processor), "it is not yet time");
            let goes = affinity.is_to_go(affinity.next, 0, || processor);
            assert_eq!(busy[number].load(Relaxed), moved >= MUCH);
            goes
        };
        assert!(goes(0, 1, true, MUCH));
        assert!(goes(1, 2, true, MUCH));
        assert!(!goes(1, 3, true, MUCH), "it is there");
        assert!(!goes(0, 1, true, MUCH - 1));
        assert!(!goes(0, 1, false, MUCH));
    }

    #[test]
    fn who_goes_home_may_go_on_from_there() {
        let goes = || {
            let may_be = || sched_getaffinity(None).expect("it tells");
            let all = may_be();
            assert!(affinity(1).0.go());
            assert_eq!(may_be(), all);
            let mut second = CpuSet::new();
            second.set(1);
            sched_setaffinity(None, &second).expect("there are two");
            assert!(!affinity(0).0.go(), "it may not be there");
            assert_eq!(may_be(), second);
        };
        std::thread::spawn(goes).join().expect("it ends");
    }
}
