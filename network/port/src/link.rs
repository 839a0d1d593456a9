//! What is known of a port beside its frames.

/// What went through a port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What came in.
    pub received: Traffic,
    /// What went out.
    pub sent: Traffic,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames, as they were handed over: one that is yet to be cut is one.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Frames that there was no room for.
    pub dropped: u64,
    /// Frames that were refused.
    pub errors: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, length: usize) {
        self.packets += 1;
        self.bytes += length as u64;
    }
}

/// The state of what a port is plugged into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// It is administratively up.
    pub is_up: bool,
    /// It has a carrier.
    pub is_running: bool,
    /// Its hardware address; 0 if it has none.
    pub address: [u8; 6],
    /// Bytes that a frame may carry after its Ethernet header.
    pub mtu: u32,
    /// Where anybody knows.
    pub bits_per_second: Option<u64>,
    /// The number by which the kernel knows the interface; nothing, if there is none.
    pub index: Option<u32>,
}
