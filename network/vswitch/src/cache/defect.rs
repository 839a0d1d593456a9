//! Mistakes that a cache can be told to make: a test that does not find them is none.

use super::{Cache, Shared};
use fulmar_packet::{Field, FlowMask};
use std::sync::atomic::Ordering::Relaxed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Believes decisions that were made before a change.
    IgnoresGeneration,
    /// Takes a decision to be for more packets than it is for.
    LeavesBitsOut,
    /// What came for a decision since the last credit is not credited when it is removed.
    ForgetsCredit,
}

impl Cache {
    pub(super) fn spoilt(&self, mut consulted: FlowMask) -> FlowMask {
        if self.defect == Some(Defect::LeavesBitsOut) {
            for field in [Field::L4_DESTINATION, Field::TUNNEL_SOURCE, Field::IP_TOS] {
                consulted.remove(field);
            }
        }
        consulted
    }

    pub(super) fn forget_credit(&self, flow: &Shared) {
        if self.defect == Some(Defect::ForgetsCredit) {
            let megaflow = flow.value();
            megaflow.credited_packets.store(megaflow.packets.load(Relaxed), Relaxed);
            megaflow.credited_bytes.store(megaflow.bytes.load(Relaxed), Relaxed);
        }
    }
}
