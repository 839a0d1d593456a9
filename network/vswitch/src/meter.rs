//! Meters: how much may come, and what happens to what is more (section 5.7 of the OpenFlow specification).

use crate::traffic::{Counters, Traffic};
use fulmar_node::Time;
use fulmar_openflow::group::Counts;
use fulmar_openflow::meter::{Band, BandKind, MeterConfig, MeterFlags, MeterMod, MeterStats};
use parking_lot::Mutex;

/// Of a band: tokens in nanounits, so that a slow rate gains some in each nanosecond.
#[derive(Debug)]
struct Bucket {
    tokens: u128,
    filled: Time,
}

/// What each band counts.
#[derive(Debug)]
struct Gauge {
    band: Band,
    bucket: Mutex<Bucket>,
    beyond: Counters,
}

/// A meter.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) number: u32,
    flags: MeterFlags,
    gauges: Vec<Gauge>,
    counters: Counters,
    created: Time,
}

/// What becomes of a packet that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Drop,
    /// It is more likely to be dropped elsewhere: so many steps.
    Remark(u8),
}

const NANOS: u128 = 1_000_000_000;

impl Gauge {
    /// How much there may be at once: what was said, or what comes in a second.
    fn depth(&self, flags: MeterFlags) -> u128 {
        let burst = if flags.contains(MeterFlags::BURST) { self.band.burst } else { 0 };
        let units = if burst > 0 { burst } else { self.band.rate };
        u128::from(units) * Self::unit(flags) * NANOS
    }

    /// Of what is measured, so much is one of the band's: kilobits are measured in bits.
    fn unit(flags: MeterFlags) -> u128 {
        if flags.contains(MeterFlags::PACKETS) { 1 } else { 1000 }
    }

    /// Whether there are tokens for so much, which are taken then.
    fn has_room(&self, cost: u128, flags: MeterFlags, now: Time) -> bool {
        let mut bucket = self.bucket.lock();
        let passed = now.since(bucket.filled).as_nanos();
        let gained = passed * u128::from(self.band.rate) * Self::unit(flags);
        bucket.tokens = (bucket.tokens + gained).min(self.depth(flags));
        bucket.filled = bucket.filled.max(now);
        let has_room = bucket.tokens >= cost;
        if has_room {
            bucket.tokens -= cost;
        }
        has_room
    }
}

impl Meter {
    pub(crate) fn new(meter: &MeterMod, now: Time) -> Self {
        let gauge = |band: &Band| Gauge {
            band: band.clone(),
            bucket: Mutex::new(Bucket { tokens: u128::MAX / 2, filled: now }),
            beyond: Counters::default(),
        };
        Self {
            number: meter.meter,
            flags: meter.flags,
            gauges: meter.bands.iter().map(gauge).collect(),
            counters: Counters::default(),
            created: now,
        }
    }

    /// Measures a packet: of the bands that it is beyond, the one of the highest rate counts.
    pub(crate) fn measure(&self, bytes: usize, now: Time) -> Verdict {
        let traffic = Traffic { packets: 1, bytes: bytes as u64 };
        self.counters.add(traffic);
        let cost = if self.flags.contains(MeterFlags::PACKETS) { 1 } else { 8 * bytes as u128 };
        let beyond = self.gauges.iter().filter(|gauge| !gauge.has_room(cost * NANOS, self.flags, now));
        let Some(gauge) = beyond.max_by_key(|gauge| gauge.band.rate) else { return Verdict::Pass };
        gauge.beyond.add(traffic);
        match &gauge.band.kind {
            BandKind::Drop => Verdict::Drop,
            BandKind::Remark(remark) => Verdict::Remark(remark.steps),
        }
    }

    pub(crate) fn config(&self) -> MeterConfig {
        let bands = self.gauges.iter().map(|gauge| gauge.band.clone()).collect();
        MeterConfig { flags: self.flags, meter: self.number, bands }
    }

    pub(crate) fn stats(&self, flows: usize, now: Time) -> MeterStats {
        let age = now.since(self.created);
        MeterStats {
            meter: self.number,
            flows: u32::try_from(flows).unwrap_or(u32::MAX),
            counts: counts(&self.counters),
            seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
            nanoseconds: age.subsec_nanos(),
            bands: self.gauges.iter().map(|gauge| counts(&gauge.beyond)).collect(),
        }
    }
}

pub(crate) fn counts(counters: &Counters) -> Counts {
    let Traffic { packets, bytes } = counters.get();
    Counts { packets, bytes }
}
