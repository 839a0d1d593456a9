//! Looking for work before sleeping.

use crate::clock::Clock;
use fulmar_node::Time;
use std::time::Duration;

/// Decides whether to look again and again for a while before sleeping: if most of the last waits were so short that waking
/// up took a good part of them. A driver whose work comes seldom, or that shares its cores with others who keep it waiting,
/// does not look at all: one short wait among long ones is no reason, as looking takes from the others. Nor is one long
/// wait among short ones a reason to stop.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// How many more of the last waits ended within the limit than did not, as a counter that stops at 0 and [`MOST`].
    short: u8,
}

const MOST: u8 = 7;
/// So many are a reason to look.
const REASON: u8 = 4;

impl Spin {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, short: MOST }
    }

    /// Looks until `look` finds something, or the limit or `timeout` is reached; whether it has. In between others may
    /// run: what is waited for may need this very core.
    pub(crate) fn look<E>(
        &self,
        clock: Clock,
        begun: Time,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if self.short < REASON || self.limit.is_zero() {
            return Ok(false);
        }
        let limit = timeout.map_or(self.limit, |timeout| timeout.min(self.limit));
        loop {
            if look()? {
                return Ok(true);
            }
            if clock.now().since(begun) >= limit {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }

    /// A wait took so long.
    pub(crate) fn learn(&mut self, wait: Duration) {
        if !self.limit.is_zero() {
            self.short =
                if wait <= self.limit { (self.short + 1).min(MOST) } else { self.short.saturating_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_long_waits_it_sleeps_at_once_until_there_were_short_ones() {
        let limit = Duration::from_secs(3600);
        let clock = Clock::start();
        let now = clock.now();
        let mut spin = Spin::new(limit);
        let mut looks = 0;
        let mut look = || -> Result<bool, ()> {
            looks += 1;
            Ok(looks == 3)
        };
        assert_eq!(spin.look(clock, now, None, &mut look), Ok(true));
        for _ in REASON..=MOST {
            spin.learn(limit * 2);
        }
        assert_eq!(spin.look(clock, now, None, &mut look), Ok(false));
        spin.learn(limit);
        assert_eq!(spin.look(clock, now, Some(Duration::ZERO), || Ok::<_, ()>(false)), Ok(false));
        assert_eq!(spin.look(clock, now, Some(Duration::ZERO), || Ok::<_, ()>(true)), Ok(true));
        assert_eq!(looks, 3);
    }
}
