//! Where a thread runs. The system decides that, and may leave all threads on one processor for a long time while hosts have the others.
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
pub(super) struct Home {
    number: usize,
    /// By threads' numbers, whether they have much to do.
    busy: Arc<[AtomicBool]>,
    /// Nothing, if the system does not tell where it may run.
    allowed: Option<CpuSet>,
    moved: usize,
    next: Time,
}

impl Home {
    /// That of the calling thread, which has this number.
    pub(super) fn new(number: usize, busy: Arc<[AtomicBool]>) -> Self {
        Self { number, busy, allowed: sched_getaffinity(None).ok(), moved: 0, next: Time::ZERO }
    }

    fn is_at(&self, processor: usize) -> bool {
        processor % self.busy.len() == self.number
    }

    /// To be called after each turn, with how many packets were moved. Says whether the thread went home.
    pub(super) fn look(&mut self, now: Time, moved: usize) -> bool {
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
        is_busy && are_others() && !self.is_at(sched_getcpu()) && self.go()
    }

    fn go(&self) -> bool {
        let Some(allowed) = self.allowed else { return false };
        let mut home = CpuSet::new();
        (0..CpuSet::MAX_CPU)
            .filter(|processor| allowed.is_set(*processor) && self.is_at(*processor))
            .for_each(|processor| home.set(processor));
        // It is there when this returns, and the system may put it elsewhere again.
        let is_there = sched_setaffinity(None, &home).is_ok();
        let _ = sched_setaffinity(None, &allowed);
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuSet, EVERY, Home, MUCH, sched_getaffinity, sched_setaffinity};
    use fulmar_node::Time;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// Whether a thread that is on the second processor goes home: its number of two, whether the other is busy, and how many packets it has moved.
    fn goes(number: usize, is_other_busy: bool, moved: usize) -> bool {
        let goes = move || {
            let all = sched_getaffinity(None).expect("it tells");
            let busy: Arc<[AtomicBool]> = [AtomicBool::new(false), AtomicBool::new(false)].into();
            busy[1 - number].store(is_other_busy, Relaxed);
            let mut home = Home::new(number, busy.clone());
            home.next = Time::ZERO + EVERY;
            let mut second = CpuSet::new();
            second.set(1);
            sched_setaffinity(None, &second).expect("there are two");
            assert!(!home.look(Time::ZERO, moved), "it is not yet time");
            let goes = home.look(home.next, 0);
            assert_eq!(busy[number].load(Relaxed), moved >= MUCH);
            assert_eq!(sched_getaffinity(None).expect("it tells") == all, goes, "it may go on from there");
            goes
        };
        std::thread::spawn(goes).join().expect("it ends")
    }

    #[test]
    fn threads_go_home_when_several_have_much_to_do() {
        assert!(goes(0, true, MUCH));
        assert!(!goes(1, true, MUCH), "it is there");
        assert!(!goes(0, true, MUCH - 1));
        assert!(!goes(0, false, MUCH));
    }
}
