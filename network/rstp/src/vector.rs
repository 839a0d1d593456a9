//! What bridges compare (clause 17.5): priority vectors, and the times that go with them.

use std::fmt;

/// A bridge: its priority, and its address. The lowest is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub u64);

impl BridgeId {
    /// Of a bridge with this address. Of the priority the upper four bits count.
    #[must_use]
    pub fn new(priority: u16, address: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = address;
        let [high, low] = (priority & 0xf000).to_be_bytes();
        Self(u64::from_be_bytes([high, low, a, b, c, d, e, f]))
    }

    /// Its address, as a number: whose it is, whatever the priority.
    pub(crate) const fn address(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }
}

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Priority, extension, address: as Open vSwitch writes it.
        write!(f, "{:x}.{:03x}.{:012x}", self.0 >> 60, self.0 >> 48 & 0xfff, self.address())
    }
}

/// A port: its priority in the upper four bits, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

impl PortId {
    /// Of the priority the upper four bits count, of the number the lower twelve.
    #[must_use]
    pub fn new(priority: u8, number: u16) -> Self {
        Self(u16::from(priority & 0xf0) << 8 | number & 0x0fff)
    }
}

/// How good a way to the root is: the lower, the better (clause 17.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Vector {
    /// Root bridge.
    pub(crate) root: BridgeId,
    /// Root path cost.
    pub(crate) cost: u32,
    /// Designated bridge: who tells it.
    pub(crate) bridge: BridgeId,
    /// Designated port: by which of its ports.
    pub(crate) port: PortId,
}

impl Vector {
    /// That of the root itself, at none of its ports.
    pub(crate) const fn of_root(bridge: BridgeId) -> Self {
        Self { root: bridge, cost: 0, bridge, port: PortId(0) }
    }
}

/// Times, in seconds, as the root says them, and how old the message is that says so (clause 17.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How many bridges a message has passed.
    pub message_age: u16,
    /// How many it may pass.
    pub max_age: u16,
    /// Between two messages.
    pub hello: u16,
    /// In the listening and the learning state each, where nobody agrees.
    pub forward_delay: u16,
}

impl Default for Times {
    fn default() -> Self {
        Self { message_age: 0, max_age: 20, hello: 2, forward_delay: 15 }
    }
}
