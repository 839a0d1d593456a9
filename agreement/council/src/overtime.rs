//! What is taken when time is up.

use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Takes what comes until a deadline, and then what had come by then: this process may have been slow, and not the others. But no more of
/// that than of each member a few: whoever sends without end does not put the deadline off.
pub(crate) struct Overtime {
    most: usize,
    taken: usize,
}

/// Of a member: a frame, which lets the next one in, an end, and a link each way.
const OF_EACH: usize = 4;

impl Overtime {
    /// Among so many members.
    pub(crate) const fn among(members: usize) -> Self {
        Self { most: OF_EACH * members, taken: 0 }
    }

    /// What comes next, when there are `left` until the deadline; nothing when it is over.
    pub(crate) fn next<T>(&mut self, told: &Receiver<T>, left: Duration) -> Option<T> {
        self.taken = if left.is_zero() { self.taken + 1 } else { 0 };
        let next = if self.taken > self.most { None } else { told.recv_timeout(left).ok() };
        if next.is_none() {
            self.taken = 0;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn who_sends_without_end_does_not_put_a_deadline_off() {
        let (tell, told) = channel();
        (0..100).for_each(|number| tell.send(number).expect("it is heard"));
        let mut overtime = Overtime::among(4);
        for _ in 0..2 {
            let taken = std::iter::from_fn(|| overtime.next(&told, Duration::ZERO));
            assert_eq!(taken.count(), 16);
        }
        // Before it, all is taken.
        assert_eq!((0..50).filter_map(|_| overtime.next(&told, Duration::from_secs(60))).count(), 50);
        // And what is there in time is not lost, if nothing more comes.
        assert_eq!(std::iter::from_fn(|| overtime.next(&told, Duration::ZERO)).count(), 16);
        assert_eq!(std::iter::from_fn(|| overtime.next(&told, Duration::ZERO)).count(), 2);
    }
}
