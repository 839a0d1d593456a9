//! Looking for work before sleeping.

use std::time::{Duration, Instant};

/// Decides whether to look again and again for a while before sleeping: if the last wait was so short that waking up
/// took a good part of it. A driver whose work comes seldom, or that shares its cores with others who keep it waiting,
/// does not look at all.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// The last wait ended within the limit.
    worthwhile: bool,
}

impl Spin {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, worthwhile: true }
    }

    /// Looks until `look` finds something, or the limit or `timeout` is reached; whether it has. In between others may
    /// run: what is waited for may need this very core.
    pub(crate) fn look<E>(
        &self,
        begun: Instant,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Result<bool, E>,
    ) -> Result<bool, E> {
        if !self.worthwhile || self.limit.is_zero() {
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
            self.worthwhile = begun.elapsed() <= self.limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_long_wait_it_sleeps_at_once() {
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
            spin.learn(now);
            assert_eq!(spin.look(now, Some(Duration::ZERO), || Ok::<_, ()>(false)), Ok(false));
        }
        assert_eq!(looks, 3);
    }
}
