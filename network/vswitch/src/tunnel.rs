//! Tunnels, as flows see them: a port to which the key and the ends of a tunnel belong. What carries frames is elsewhere.

use fulmar_packet::{Field, FlowKey};
use fulmar_port::vxlan::Outer;
use std::fmt;
use std::net::Ipv4Addr;

/// What a port puts before frames. What is not said is the flow's to say, or the packet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The number of the network; or `tun_id`, of which 24 bits count.
    pub key: Option<u32>,
    /// Where it ends; or `tun_dst`. To 0.0.0.0 nothing is sent.
    pub remote: Option<Ipv4Addr>,
    /// Which of the host's addresses it comes from; or `tun_src`. If that is 0.0.0.0, the one of the route.
    pub local: Option<Ipv4Addr>,
    /// The six upper bits of the type of service outside; or those of the packet. What is said of congestion is the packet's always
    /// (RFC 6040, section 4.1).
    pub tos: Option<u8>,
    /// Hops to live outside; or the packet's.
    pub ttl: Option<u8>,
    /// What is too long for its way must not be cut into fragments.
    pub is_whole: bool,
}

impl Tunnel {
    /// Hops to live, of what does not have a number of its own.
    pub const TTL: u8 = 64;

    /// To a remote end, for a network, with what is usual otherwise.
    pub fn to(remote: Ipv4Addr, key: u32) -> Self {
        Self {
            key: Some(key),
            remote: Some(remote),
            local: Some(Ipv4Addr::UNSPECIFIED),
            tos: Some(0),
            ttl: Some(Self::TTL),
            is_whole: true,
        }
    }
}

/// What is known of a packet that came by a tunnel, for [`Forwarder::forward`](crate::Forwarder::forward): its network, who sent it, and to which of the
/// host's addresses.
pub fn tunnelled(network: u32, remote: Ipv4Addr, local: Ipv4Addr) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    key.set(Field::TUNNEL_ID, network.into());
    key.set(Field::TUNNEL_SOURCE, remote.to_bits().into());
    key.set(Field::TUNNEL_DESTINATION, local.to_bits().into());
    key
}

/// A packet that leaves by a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// The port that is the tunnel's end.
    pub port: u32,
    /// What is put before it.
    pub outer: Outer,
    /// So many bytes of it, if not all.
    pub length: Option<u32>,
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outer { network, remote, local, tos, ttl, is_whole } = self.outer;
        write!(f, "vxlan(port={},tun_id={network:#x},src={local},dst={remote}", self.port)?;
        write!(f, ",tos={tos:#x},ttl={ttl}{}", if is_whole { ",df" } else { "" })?;
        self.length.map_or(Ok(()), |length| write!(f, ",max_len={length}"))?;
        f.write_str(")")
    }
}
