//! Frames in and out of VXLAN tunnels (RFC 7348), over the host's own UDP: routes, neighbours, the outer header and its fragments are
//! the kernel's.
//!
//! A [`Vtep`] is the end of all tunnels of a process that use one UDP port, and knows by which tunnel a datagram came. A switch has
//! [`Arrivals`] at it, and each of its threads [`Departures`]. Datagrams of one size between the same two ends come and go as one *train*, which the kernel
//! makes of them and takes apart (`UDP_GRO`, `UDP_SEGMENT`): so a segment of 64 KiB, cut here, goes through the host's stack once.

mod arrivals;
mod congestion;
mod datagram;
mod departures;
mod table;
mod unfinished;
mod vtep;

pub use arrivals::Arrivals;
pub use datagram::{Lost, decapsulate};
pub use departures::{Departed, Departures};
pub use table::Claim;
pub use vtep::{Claims, Dropped, Vtep};

use std::net::Ipv4Addr;

/// What an outer header is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The number of the network that the frame is of: 24 bits.
    pub network: u32,
    /// Where it goes.
    pub remote: Ipv4Addr,
    /// Which address of the host it comes from; if unspecified, that of the route.
    pub local: Ipv4Addr,
    /// The type of service, with what it says of congestion.
    pub tos: u8,
    /// Hops to live.
    pub ttl: u8,
    /// It must not be cut into fragments on its way: what is too long is lost.
    pub is_whole: bool,
}

/// By what tunnel a frame came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The switch's port that is the tunnel's end.
    pub port: u32,
    /// The number of the network that the frame is of.
    pub network: u32,
    /// Who sent it.
    pub remote: Ipv4Addr,
    /// To which of the host's addresses.
    pub local: Ipv4Addr,
}
