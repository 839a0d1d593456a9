//! Looking for work before sleeping.

use std::time::{Duration, Instant};

/// Decides whether to look again and again for a while before sleeping: if the last waits were so short that waking up
/// took a good part of them. A driver whose work comes seldom, or that shares its cores with others who keep it waiting,
/// does not look at all: one short wait among long ones is no reason, as looking takes from the others.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// How many waits, without a longer one since, ended within the limit.
    short: u32,
}

/// So many short waits are a reason to look.
const REASON: u32 = 16;

impl Spin {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, short: REASON }
    }

    /// Looks until `look` finds something, or the limit or `timeout` is reached; whether it has. In between others may
    /// run: what is waited for may need this very core.
    pub(crate) fn look<E>(
        &self,
        begun: Instant,
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
            if begun.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }

    /// A wait that began then has ended.
    pub(crate) fn learn(&mut self, begun: Instant) {
        if !self.limit.is_zero() {
            self.short = if begun.elapsed() <= self.limit { self.short.saturating_add(1) } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_long_wait_it_sleeps_at_once_until_there_were_short_ones() {
        let limit = Duration::from_secs(3600);
        let now = Instant::now();
        let mut spin = Spin::new(limit);
        let mut looks = 0;
        let mut look = || -> Result<bool, ()> {
            looks += 1;
            Ok(looks == 3)
        };
        assert_eq!(spin.look(now, None, &mut look), Ok(true));
        if let Some(long_ago) = now.checked_sub(limit * 2) {
            spin.learn(long_ago);
            assert_eq!(spin.look(now, None, &mut look), Ok(false));
            for _ in 1..REASON {
                spin.learn(now);
            }
            assert_eq!(spin.look(now, None, &mut look), Ok(false));
            spin.learn(now);
            assert_eq!(spin.look(now, Some(Duration::ZERO), || Ok::<_, ()>(false)), Ok(false));
        }
        assert_eq!(looks, 3);
    }
}
