//! A decision that is remembered, and what has come for it.

use crate::pipeline::Pipeline;
use crate::step::{Decision, Step};
use crate::traffic::Traffic;
use fulmar_node::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A decision for many packets. Only the cache's own thread changes it.
pub struct Megaflow {
    pub(super) decision: Decision,
    /// What came for it, in all and since it was credited last.
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) credited_packets: AtomicU64,
    pub(super) credited_bytes: AtomicU64,
    /// When a packet came last, nanoseconds since the origin.
    used: AtomicU64,
    /// It is no longer in the cache.
    pub(super) is_gone: AtomicBool,
}

impl Megaflow {
    pub(super) fn new(decision: Decision, now: Time) -> Self {
        Self {
            decision,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            credited_packets: AtomicU64::new(0),
            credited_bytes: AtomicU64::new(0),
            used: AtomicU64::new(now.as_nanos()),
            is_gone: AtomicBool::new(false),
        }
    }

    /// What came for it.
    pub fn traffic(&self) -> Traffic {
        Traffic { packets: self.packets.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    /// How long no packet has come.
    pub fn idle(&self, now: Time) -> Duration {
        now.since(Time::from_nanos(self.used.load(Relaxed)))
    }

    /// What is done.
    pub fn steps(&self) -> &[Step] {
        &self.decision.steps
    }

    /// One more packet. Says whether it is the first since what came was credited.
    pub(super) fn count(&self, bytes: usize, now: Time) -> bool {
        // There is one writer: a load and a store are enough.
        let packets = self.packets.load(Relaxed);
        self.packets.store(packets + 1, Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes as u64, Relaxed);
        self.used.store(now.as_nanos(), Relaxed);
        packets == self.credited_packets.load(Relaxed)
    }

    pub(super) fn credit(&self, pipeline: &Pipeline, now: Time) {
        let all = self.traffic();
        let packets = all.packets - self.credited_packets.swap(all.packets, Relaxed);
        let bytes = all.bytes - self.credited_bytes.swap(all.bytes, Relaxed);
        if packets > 0 {
            pipeline.credit(&self.decision.credits, Traffic { packets, bytes }, now);
        }
    }
}
