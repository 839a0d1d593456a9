//! What connection tracking reads in a frame.

use crate::embedded::{self, Embedded};
use crate::tcp::Segment;
use crate::tuple::{Ends, Query, Tuple};
use fulmar_packet::{Field, FlowKey, Layers, ethernet, ip};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// A packet that may be of a connection.
pub(crate) struct Packet {
    /// Its own; of an error, that of an answer to what it is about.
    pub(crate) tuple: Tuple,
    pub(crate) content: Content,
    /// Where in the frame is what IP carries.
    pub(crate) body: Range<usize>,
}

pub(crate) enum Content {
    Segment(Segment),
    /// Of UDP and SCTP.
    Datagram,
    /// Of ICMP.
    Query(Query),
    /// Of ICMP, too, about a packet of which it has the front.
    Error(Embedded),
}

impl Packet {
    /// Reads a frame of which `key` and `layers` have been extracted. Nothing, if it is not of a protocol that has connections, or is
    /// cut off, or a later fragment, or has a port 0.
    pub(crate) fn read(zone: u16, key: &FlowKey, frame: &[u8], layers: Layers) -> Option<Self> {
        let (network, transport) = (usize::from(layers.network?), usize::from(layers.transport?));
        let (source, destination) = addresses(key)?;
        let is_ipv4 = source.is_ipv4();
        let (length, header) = if is_ipv4 { (network + 2, 0) } else { (network + 4, 40) };
        let length = u16::from_be_bytes(*frame.get(length..)?.first_chunk()?);
        let body = transport..network + header + usize::from(length);
        let bytes = frame.get(body.clone())?;
        let protocol = u8::try_from(key.get(Field::IP_PROTOCOL)).ok()?;
        let ends = Ends { zone, source, destination };
        let (tuple, content) = match (protocol, is_ipv4) {
            (ip::TCP, _) => (ends.ports(protocol, bytes)?, Content::Segment(Segment::parse(bytes)?)),
            (ip::UDP | ip::SCTP, _) => (ends.ports(protocol, bytes)?, Content::Datagram),
            (ip::ICMP, true) | (ip::ICMPV6, false) => match ends.query(protocol, bytes) {
                Some((tuple, query)) => (tuple, Content::Query(query)),
                None => {
                    let (embedded, about) = embedded::read(zone, protocol, bytes)?;
                    // Whom an error reaches must have sent what it is about.
                    if about.source.address != destination {
                        return None;
                    }
                    (about.reversed(), Content::Error(embedded))
                }
            },
            _ => return None,
        };
        Some(Self { tuple, content, body })
    }
}

fn addresses(key: &FlowKey) -> Option<(IpAddr, IpAddr)> {
    let ipv4 = |field| u32::try_from(key.get(field)).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).ok();
    let ipv6 = |field| IpAddr::V6(Ipv6Addr::from_bits(key.get(field)));
    match u16::try_from(key.get(Field::ETH_TYPE)).ok()? {
        ethernet::IPV4 => Some((ipv4(Field::IPV4_SOURCE)?, ipv4(Field::IPV4_DESTINATION)?)),
        ethernet::IPV6 => Some((ipv6(Field::IPV6_SOURCE), ipv6(Field::IPV6_DESTINATION))),
        _ => None,
    }
}
