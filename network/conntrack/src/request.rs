//! What is asked of connection tracking, and what it says.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The bits of `ct_state`, as Open vSwitch numbers them (ovs-fields(7)).
pub mod state {
    /// The packet can be the first of a connection, or there was no answer to that yet.
    pub const NEW: u32 = 0x01;
    /// It is of a connection that was answered.
    pub const ESTABLISHED: u32 = 0x02;
    /// It is about one.
    pub const RELATED: u32 = 0x04;
    /// It goes against the first packet of its connection.
    pub const REPLY: u32 = 0x08;
    /// It cannot be of any connection, or not be tracked, or not be translated.
    pub const INVALID: u32 = 0x10;
    /// It has been tracked.
    pub const TRACKED: u32 = 0x20;
    /// Its source has been translated.
    pub const SOURCE_TRANSLATED: u32 = 0x40;
    /// Its destination has been translated.
    pub const DESTINATION_TRANSLATED: u32 = 0x80;
}

/// A `ct` action (ovs-actions(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The zone.
    pub zone: u16,
    /// Whether a new connection is to be remembered.
    pub commit: bool,
    /// Whether the packet's direction is to be the original one: a connection in which it is a reply is forgotten.
    pub force: bool,
    /// The bits of the connection's mark to be set, and which. Only with `commit`.
    pub mark: Option<(u32, u32)>,
    /// The same for its label.
    pub label: Option<(u128, u128)>,
    /// Whether the packet is to be translated: `nat`.
    pub translation: Option<Translation>,
}

/// What becomes of addresses and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// The side of the original direction that is translated when a connection is committed. With none, and for all packets after the
    /// first, the connection's own translation is applied, if it has one.
    pub side: Option<Side>,
    /// To one of these addresses; without, the address stays.
    pub addresses: Option<RangeInclusive<IpAddr>>,
    /// To one of these ports. Without, a source port may become another of its class (below 512, below 1024, above) if it is taken;
    /// a destination port stays.
    pub ports: Option<RangeInclusive<u16>>,
}

/// An end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Bits of [`state`].
    pub state: u32,
    /// The zone that was asked for.
    pub zone: u16,
    /// The mark of its connection.
    pub mark: u32,
    /// The label of its connection.
    pub label: u128,
    /// What was changed in the frame.
    pub rewritten: Rewritten,
}

/// The fields that were changed in a frame, apart from checksums and what an error of ICMP has of another packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The source address.
    pub source: bool,
    /// The source port, or the identifier of a request of ICMP.
    pub source_port: bool,
    /// The destination address.
    pub destination: bool,
    /// The destination port, or the identifier of a reply of ICMP.
    pub destination_port: bool,
}
