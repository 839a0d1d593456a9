//! How much of what is counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// How long all of them are.
    pub bytes: u64,
}

/// Traffic that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(&self, traffic: Traffic) {
        self.packets.fetch_add(traffic.packets, Relaxed);
        self.bytes.fetch_add(traffic.bytes, Relaxed);
    }

    pub(crate) fn get(&self) -> Traffic {
        Traffic { packets: self.packets.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}
