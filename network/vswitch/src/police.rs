//! What is too much of what comes in at a port is dropped, before anything is decided about it.

use crate::rate::{Bucket, Rate, bits, pass_both};
use fulmar_node::Time;

/// How much may come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policing {
    /// Bits.
    pub bits: Rate,
    /// Packets: a segment that is yet to be cut is one.
    pub packets: Rate,
}

/// Holds these rates.
#[derive(Debug)]
pub struct Policer {
    bits: Option<Bucket>,
    packets: Option<Bucket>,
}

impl Policer {
    /// One at which nothing has come in yet.
    pub fn new(policing: Policing, now: Time) -> Self {
        let [bits, packets] = [policing.bits, policing.packets].map(|rate| Bucket::new(rate, now));
        Self { bits, packets }
    }

    /// Whether a packet may come in.
    pub fn admits(&self, bytes: usize, now: Time) -> bool {
        pass_both([(&self.packets, 1), (&self.bits, bits(bytes))], now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Of packets that come each millisecond for ten seconds, how many may.
    fn come(policing: Policing, bytes: usize) -> usize {
        let policer = Policer::new(policing, Time::ZERO);
        let times = (0..10_000u32).map(|number| Time::ZERO + Duration::from_millis(1) * number);
        times.filter(|now| policer.admits(bytes, *now)).count()
    }

    fn rate(per_second: u64, burst: u64) -> Rate {
        Rate { per_second: Some(per_second), burst: Some(burst) }
    }

    #[test]
    fn both_rates_are_held() {
        assert_eq!(come(Policing::default(), 1500), 10_000);
        let bits = Policing { bits: rate(1_200_000, 12_000), ..Policing::default() };
        assert!((1000..=1002).contains(&come(bits, 1500)), "a hundred a second");
        assert!((9990..=10_000).contains(&come(bits, 150)), "short ones pass");
        let packets = Policing { packets: rate(10, 50), ..Policing::default() };
        assert!((149..=151).contains(&come(packets, 1500)), "ten a second, and fifty at once");
        assert!((99..=151).contains(&come(Policing { packets: rate(10, 50), ..bits }, 1500)));
    }

    #[test]
    fn what_is_too_long_is_none_of_few() {
        let policing = Policing { bits: rate(8, 8), packets: rate(1, 2) };
        let policer = Policer::new(policing, Time::ZERO);
        assert!(policer.admits(1500, Time::ZERO), "the bits of many seconds");
        assert!((0..9).all(|_| !policer.admits(1, Time::ZERO)));
        let later = Time::ZERO + Duration::from_secs(2000);
        assert!(policer.admits(1500, later), "refusals have cost it nothing");
    }
}
