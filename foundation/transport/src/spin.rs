//! Looking for work before sleeping.

use crate::clock::Clock;
use fulmar_node::Time;
use std::time::Duration;

/// Decides whether to look again and again for a while before sleeping: if most of the last waits were so short that waking
/// up took a good part of them. A driver whose work comes seldom, or that shares its cores with others who keep it waiting,
/// does not look at all: one short wait among long ones is no reason, as looking takes from the others. Nor is one long
/// wait among short ones a reason to stop.
///
/// But a wait that was slept through may have been long only because either end took so long to wake up, on a virtual
/// machine above all; and so it stays while both sleep. So there is a [`Trial`] now and then.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// How many more of the last waits ended within the limit than did not, as a counter that stops at 0 and [`MOST`].
    short: u8,
    trial: Trial,
}

const MOST: u8 = 7;
/// So many are a reason to look.
const REASON: u8 = 4;
/// So many times longer than otherwise a trial looks: the other end may have to be woken up meanwhile.
const PATIENCE: u32 = 10;
/// A look that took so long has let somebody else have the core: there is no idle time to be traded.
const SHARED: Duration = Duration::from_micros(5);
/// Once or twice, that may have been the host of a virtual machine.
const OFTEN: u32 = 2;

impl Spin {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, short: MOST, trial: Trial::new() }
    }

    /// Looks until `look` finds something, or the limit or `timeout` is reached; whether it has. In between others may
    /// run: what is waited for may need this very core.
    pub(crate) fn look<E>(
        &mut self,
        clock: Clock,
        begun: Time,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.limit.is_zero() {
            return Ok(false);
        }
        let is_trial = self.short < REASON;
        if is_trial && !self.trial.goes_on() {
            return Ok(false);
        }
        let limit = if is_trial { self.limit * PATIENCE } else { self.limit };
        let limit = timeout.map_or(limit, |timeout| timeout.min(limit));
        let (mut last, mut shared) = (begun, 0);
        loop {
            if look()? {
                return Ok(true);
            }
            let now = clock.now();
            shared += u32::from(now.since(last) >= SHARED);
            if now.since(begun) >= limit || is_trial && shared > OFTEN {
                break;
            }
            last = now;
            std::thread::yield_now();
        }
        if is_trial {
            self.trial.fail();
        }
        Ok(false)
    }

    /// A wait took so long.
    pub(crate) fn learn(&mut self, wait: Duration) {
        if self.limit.is_zero() {
            return;
        }
        if wait > self.limit {
            self.short = self.short.saturating_sub(1);
        } else {
            self.short = (self.short + 1).min(MOST);
            if self.short == REASON {
                self.trial = Trial::new();
            }
        }
    }
}

/// Looks at every wait for a while although waits are long. If each ends in the time for which is looked, that goes on until
/// the other end may have begun a trial of its own: then both find waits short, and stay awake. Otherwise the
/// next trial comes later than the last.
#[derive(Debug)]
struct Trial {
    /// So many waits it still takes; 0 between trials.
    left: u32,
    /// So many waits pass before the next.
    until: u32,
    /// So many pass after the next, if it fails.
    rest: u32,
}

impl Trial {
    const LENGTH: u32 = 1024;
    const FIRST_REST: u32 = 64;
    const LONGEST_REST: u32 = 8192;

    const fn new() -> Self {
        Self { left: 0, until: Self::FIRST_REST, rest: Self::FIRST_REST * 2 }
    }

    /// Whether this wait is of a trial.
    fn goes_on(&mut self) -> bool {
        if self.left == 0 {
            self.until -= 1;
            if self.until == 0 {
                self.left = Self::LENGTH;
            }
            return false;
        }
        self.left -= 1;
        if self.left == 0 {
            self.fail();
        }
        true
    }

    fn fail(&mut self) {
        self.left = 0;
        self.until = self.rest;
        self.rest = (self.rest * 2).min(Self::LONGEST_REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any test takes.
    const LIMIT: Duration = Duration::from_secs(3600);

    fn waits(spin: &mut Spin, wait: Duration, times: u32) {
        (0..times).for_each(|_| spin.learn(wait));
    }

    #[test]
    fn after_long_waits_it_sleeps_at_once_until_there_were_short_ones() {
        let clock = Clock::start();
        let now = clock.now();
        let mut spin = Spin::new(LIMIT);
        let mut looks = 0;
        let mut look = || -> Result<bool, ()> {
            looks += 1;
            Ok(looks == 3)
        };
        assert_eq!(spin.look(clock, now, None, &mut look), Ok(true));
        waits(&mut spin, LIMIT * 2, (MOST - REASON + 1).into());
        assert_eq!(spin.look(clock, now, None, &mut look), Ok(false));
        spin.learn(LIMIT);
        assert_eq!(spin.look(clock, now, Some(Duration::ZERO), || Ok::<_, ()>(false)), Ok(false));
        assert_eq!(spin.look(clock, now, Some(Duration::ZERO), || Ok::<_, ()>(true)), Ok(true));
        assert_eq!(looks, 3);
    }

    /// How many of so many long waits are looked through, if something is found each time, or never.
    fn trials(spin: &mut Spin, waited: u32, finds: bool) -> u32 {
        let clock = Clock::start();
        let timeout = (!finds).then_some(Duration::ZERO);
        let mut looked = 0;
        for _ in 0..waited {
            let mut look = || -> Result<bool, ()> {
                looked += 1;
                Ok(finds)
            };
            assert_eq!(
                spin.look(clock, clock.now(), timeout, &mut look).map(|found| found && !finds),
                Ok(false)
            );
            spin.learn(LIMIT * 2);
        }
        looked
    }

    #[test]
    fn long_waits_are_looked_through_seldom_and_more_seldom_if_nothing_is_found() {
        let mut spin = Spin::new(LIMIT);
        waits(&mut spin, LIMIT * 2, MOST.into());
        // After 64 waits, 128 more, and so on, to 8,192.
        assert_eq!(trials(&mut spin, 64 + 8, false), 1);
        assert_eq!(trials(&mut spin, 16 << 10, false), 7);
        assert!(trials(&mut spin, 1 << 20, false) <= 129);
    }

    #[test]
    fn a_trial_goes_on_for_as_long_as_something_is_found_and_ends_by_itself() {
        let mut spin = Spin::new(LIMIT);
        waits(&mut spin, LIMIT * 2, MOST.into());
        assert_eq!(trials(&mut spin, 64 + Trial::LENGTH + 100, true), Trial::LENGTH);
        // Short waits begin another life: it looks, and if that ends, the next trial is soon.
        waits(&mut spin, LIMIT, REASON.into());
        assert_eq!(trials(&mut spin, 1, true), 1);
        waits(&mut spin, LIMIT * 2, MOST.into());
        assert_eq!(trials(&mut spin, 64 + 5, true), 5);
    }
}
