//! Queues of ports: how much may leave by each, and what has (section 7.3.6 of the OpenFlow specification).
//!
//! A queue lets packets go, or drops them: it does not keep them for later. So a rate is held, as by a meter, and a packet that goes
//! is not delayed.

use crate::rate::{Bucket, Rate, bits, pass_both};
use crate::traffic::{Counters, Traffic};
use fulmar_node::Time;
use fulmar_openflow::PortNumber;
use fulmar_openflow::queue::{Queue as QueueTold, QueueProperty, QueueStats};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The queues that a port is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shaping {
    /// For all queues together, in bits.
    pub port: Rate,
    /// For each, by their numbers. Number 0 is for packets for which no other was chosen that there is.
    pub queues: BTreeMap<u32, Rate>,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    number: u32,
    rate: Rate,
    bucket: Option<Bucket>,
    /// That of all queues together.
    port: Arc<Option<Bucket>>,
    sent: Counters,
    dropped: Counters,
    created: Time,
}

impl Queue {
    /// Whether a packet may go.
    pub(crate) fn admits(&self, bytes: usize, now: Time) -> bool {
        let admits = pass_both([(&self.bucket, bits(bytes)), (&self.port, bits(bytes))], now);
        let traffic = Traffic { packets: 1, bytes: bytes as u64 };
        if admits { &self.sent } else { &self.dropped }.add(traffic);
        admits
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

/// The queues of a port.
#[derive(Debug)]
pub(crate) struct Queues {
    shaping: Shaping,
    queues: BTreeMap<u32, Arc<Queue>>,
}

impl Queues {
    /// A port gets these. Those that it had, and are to be as they were, go on.
    pub(crate) fn new(shaping: &Shaping, before: Option<&Self>, now: Time) -> Self {
        let before = before.filter(|before| before.shaping.port == shaping.port);
        let port = Arc::new(Bucket::new(shaping.port, now));
        let port =
            before.and_then(|before| before.queues.values().next()).map_or(port, |queue| queue.port.clone());
        let queue = |(number, rate): (&u32, &Rate)| {
            let same =
                before.and_then(|before| before.queues.get(number)).filter(|queue| queue.rate == *rate);
            let queue = same.cloned().unwrap_or_else(|| {
                Arc::new(Queue {
                    number: *number,
                    rate: *rate,
                    bucket: Bucket::new(*rate, now),
                    port: port.clone(),
                    sent: Counters::default(),
                    dropped: Counters::default(),
                    created: now,
                })
            });
            (*number, queue)
        };
        // Without any there is one: the port's rate counts.
        let mut wanted = shaping.queues.clone();
        wanted.entry(0).or_default();
        Self { shaping: shaping.clone(), queues: wanted.iter().map(queue).collect() }
    }

    pub(crate) fn shaping(&self) -> &Shaping {
        &self.shaping
    }

    /// The queue of a number, or the one for all others.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Queue>> {
        self.queues.get(&number).or_else(|| self.queues.get(&0))
    }

    pub(crate) fn stats(&self, port: u32, now: Time) -> impl Iterator<Item = QueueStats> {
        self.queues.values().map(move |queue| {
            let (sent, age) = (queue.sent.get(), now.since(queue.created));
            QueueStats {
                port: PortNumber(port),
                queue: queue.number,
                bytes: sent.bytes,
                packets: sent.packets,
                errors: queue.dropped.get().packets,
                seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
                nanoseconds: age.subsec_nanos(),
            }
        })
    }

    /// How they are set, of a port of so many bits a second; 0, if that is not known.
    pub(crate) fn tell(&self, port: u32, bits_per_second: u64) -> Vec<QueueTold> {
        let share = |rate: u64| u16::try_from(rate.saturating_mul(1000).checked_div(bits_per_second)?).ok();
        let told = |queue: &Arc<Queue>| {
            let share = queue.rate.per_second.and_then(share);
            QueueTold {
                queue: queue.number,
                port: PortNumber(port),
                properties: share.map(QueueProperty::MaxRate).into_iter().collect(),
            }
        };
        self.queues.values().map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What leaves in a second, of packets that come faster than they may go: bits.
    fn leaves(queue: &Queue, from: Time, bytes: usize) -> usize {
        let packets = (0..10_000u32).map(|number| from + Duration::from_micros(100) * number);
        packets.filter(|now| queue.admits(bytes, *now)).count() * bytes * 8
    }

    fn rate(per_second: u64) -> Rate {
        Rate { per_second: Some(per_second), burst: Some(12_000) }
    }

    #[test]
    fn a_rate_is_held_in_the_long_run() {
        let shaping = Shaping { port: Rate::default(), queues: [(1, rate(1_000_000))].into() };
        for bytes in [100, 1500, 60_000] {
            let queues = Queues::new(&shaping, None, Time::ZERO);
            let queue = queues.get(1).expect("it is there");
            let bits = leaves(queue, Time::ZERO, bytes);
            let most = 1_000_000 + 12_000 + bytes * 8;
            assert!((950_000..=most).contains(&bits), "{bits} bits of {bytes} bytes each");
        }
    }

    #[test]
    fn queues_share_what_the_port_has() {
        let shaping =
            Shaping { port: rate(1_000_000), queues: [(1, rate(700_000)), (2, Rate::default())].into() };
        let queues = Queues::new(&shaping, None, Time::ZERO);
        let all = |now| {
            (0..3).filter(|number| queues.get(*number).is_some_and(|queue| queue.admits(1500, now))).count()
        };
        let sent: usize =
            (0..10_000u32).map(|number| all(Time::ZERO + Duration::from_micros(100) * number)).sum();
        assert!((900_000..=1_024_000).contains(&(sent * 12_000)), "{sent} packets");
    }

    #[test]
    fn a_packet_that_the_port_has_no_room_for_costs_its_queue_nothing() {
        let slow = Rate { per_second: Some(1), ..rate(1) };
        let shaping = Shaping { port: rate(1_000_000), queues: [(1, slow), (2, Rate::default())].into() };
        let queues = Queues::new(&shaping, None, Time::ZERO);
        let [slow, other] = [1, 2].map(|number| queues.get(number).expect("it is there"));
        assert!(other.admits(1500, Time::ZERO) && !slow.admits(3000, Time::ZERO));
        assert!(slow.admits(3000, Time::ZERO + Duration::from_millis(20)));
    }

    #[test]
    fn what_stays_as_it_was_goes_on_counting() {
        let mut shaping = Shaping { port: Rate::default(), queues: [(1, rate(8)), (2, rate(8))].into() };
        let before = Queues::new(&shaping, None, Time::ZERO);
        for number in [1, 2, 9] {
            before.get(number).expect("or another").admits(60, Time::ZERO);
        }
        shaping.queues.insert(2, rate(9));
        let after = Queues::new(&shaping, Some(&before), Time::ZERO);
        let packets: Vec<_> = after.stats(5, Time::ZERO).map(|told| (told.queue, told.packets)).collect();
        assert_eq!(packets, [(0, 1), (1, 1), (2, 0)]);
    }
}
