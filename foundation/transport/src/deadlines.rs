//! Deadlines by name, soonest first.

use fulmar_node::{Time, TimerChange};
use std::collections::{BTreeMap, BTreeSet};

/// The deadlines of a process's timers.
#[derive(Debug)]
pub(crate) struct Deadlines<T> {
    /// For each timer that has one, its deadline.
    by_name: BTreeMap<T, Time>,
    /// The same pairs, the other way round.
    by_time: BTreeSet<(Time, T)>,
}

impl<T: Copy + Ord> Deadlines<T> {
    pub(crate) const fn new() -> Self {
        Self { by_name: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    pub(crate) fn change(&mut self, name: T, change: TimerChange) {
        let before = match change {
            TimerChange::Set(deadline) => {
                self.by_time.insert((deadline, name));
                self.by_name.insert(name, deadline).filter(|&before| before != deadline)
            }
            TimerChange::Cancel => self.by_name.remove(&name),
        };
        if let Some(before) = before {
            self.by_time.remove(&(before, name));
        }
    }

    pub(crate) fn soonest(&self) -> Option<Time> {
        self.by_time.first().map(|&(deadline, _)| deadline)
    }

    /// How many deadlines have come. A process that sets one in the past, again and again, must not keep its driver from
    /// everything else: so many are taken in a turn, and no more.
    pub(crate) fn due(&self, now: Time) -> usize {
        self.by_time.iter().take_while(|&&(deadline, _)| deadline <= now).count()
    }

    /// Takes the timer with the soonest deadline, if that has come.
    pub(crate) fn expire(&mut self, now: Time) -> Option<T> {
        let &(deadline, name) = self.by_time.first()?;
        if deadline > now {
            return None;
        }
        self.change(name, TimerChange::Cancel);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_deadline() {
        let at = Time::from_nanos;
        let mut deadlines = Deadlines::new();
        deadlines.change('a', TimerChange::Set(at(5)));
        deadlines.change('b', TimerChange::Set(at(3)));
        deadlines.change('a', TimerChange::Set(at(1)));
        deadlines.change('a', TimerChange::Set(at(1)));
        deadlines.change('c', TimerChange::Set(at(2)));
        deadlines.change('c', TimerChange::Cancel);
        assert_eq!(deadlines.soonest(), Some(at(1)));
        assert_eq!((deadlines.due(at(0)), deadlines.due(at(1)), deadlines.due(at(9))), (0, 1, 2));
        assert_eq!(deadlines.expire(at(0)), None);
        assert_eq!(deadlines.expire(at(9)), Some('a'));
        assert_eq!(deadlines.expire(at(9)), Some('b'));
        assert_eq!(deadlines.expire(at(9)), None);
        assert_eq!(deadlines.soonest(), None);
    }
}
