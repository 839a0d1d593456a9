//! By what packets of a connection are told.

use fulmar_packet::ip;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port. Of a query of ICMP, the identifier, at the end that asks; 0 at the other.
    pub port: u16,
}

/// What all packets of a connection in one direction have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple {
    /// Where they come from.
    pub source: Endpoint,
    /// Where they go.
    pub destination: Endpoint,
    /// Connections of different zones have nothing to do with each other.
    pub zone: u16,
    /// What IP carries.
    pub protocol: u8,
    /// The type of ICMP's message; 0 for other protocols.
    pub kind: u8,
}

impl Tuple {
    /// That of the packets in the other direction, if nothing is translated.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let kind = counterpart(self.protocol, self.kind).map_or(self.kind, |(kind, _)| kind);
        Self { source: self.destination, destination: self.source, kind, ..*self }
    }
}

/// Whether a message of ICMP is a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Request,
    Reply,
}

/// The type of the message that a query answers, or is answered by; and which of both this one is.
pub(crate) fn counterpart(protocol: u8, kind: u8) -> Option<(u8, Query)> {
    match (protocol, kind) {
        (ip::ICMP, 8) => Some((0, Query::Request)),
        (ip::ICMP, 0) => Some((8, Query::Reply)),
        // Timestamps and information (RFC 792).
        (ip::ICMP, 13 | 15) => Some((kind + 1, Query::Request)),
        (ip::ICMP, 14 | 16) => Some((kind - 1, Query::Reply)),
        (ip::ICMPV6, 128) => Some((129, Query::Request)),
        (ip::ICMPV6, 129) => Some((128, Query::Reply)),
        _ => None,
    }
}

pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Hash for Tuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(bits(self.source.address));
        state.write_u128(bits(self.destination.address));
        let ports = u64::from(self.source.port) << 48 | u64::from(self.destination.port) << 32;
        let rest = u64::from(self.zone) << 16 | u64::from(self.protocol) << 8 | u64::from(self.kind);
        state.write_u64(ports | rest);
    }
}

/// As `ovs-appctl dpctl/dump-conntrack` writes it.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, protocol, kind, .. } = self;
        write!(f, "src={},dst={},", source.address, destination.address)?;
        if matches!(*protocol, ip::ICMP | ip::ICMPV6) {
            write!(f, "id={},type={kind},code=0", source.port.max(destination.port))
        } else {
            write!(f, "sport={},dport={}", source.port, destination.port)
        }
    }
}

/// What of a tuple is not in the header that comes next.
pub(crate) struct Ends {
    pub(crate) zone: u16,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

impl Ends {
    /// With the ports at the front of a header.
    pub(crate) fn ports(&self, protocol: u8, header: &[u8]) -> Option<Tuple> {
        let [a, b, c, d] = *header.first_chunk()?;
        let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        (ports.0 != 0 && ports.1 != 0).then(|| self.tuple(protocol, 0, ports))
    }

    /// With the identifier of a query of ICMP.
    pub(crate) fn query(&self, protocol: u8, header: &[u8]) -> Option<(Tuple, Query)> {
        let [kind, code, _, _, a, b, _, _] = *header.first_chunk()?;
        let (_, query) = counterpart(protocol, kind).filter(|_| code == 0)?;
        let identifier = u16::from_be_bytes([a, b]);
        let ports = if query == Query::Request { (identifier, 0) } else { (0, identifier) };
        Some((self.tuple(protocol, kind, ports), query))
    }

    fn tuple(&self, protocol: u8, kind: u8, (source, destination): (u16, u16)) -> Tuple {
        Tuple {
            source: Endpoint { address: self.source, port: source },
            destination: Endpoint { address: self.destination, port: destination },
            zone: self.zone,
            protocol,
            kind,
        }
    }
}
