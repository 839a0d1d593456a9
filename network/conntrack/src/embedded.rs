//! The front of a packet that an error of ICMP is about.

use crate::tuple::{Ends, Tuple};
use fulmar_packet::ip;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of ICMP's header, behind which it is.
pub(crate) const START: usize = 8;
/// Of a transport's header, so many bytes are always there (RFC 792).
const TRANSPORT: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Where its headers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Embedded {
    /// Where its transport's header begins, bytes from the front of ICMP's.
    pub(crate) transport: usize,
    pub(crate) protocol: u8,
}

fn is_error(protocol: u8, kind: u8) -> bool {
    // Destination unreachable, source quench, redirect, time exceeded, parameter problem; of ICMPv6, with packet too big.
    match protocol {
        ip::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => matches!(kind, 1..=4),
    }
}

/// The packet that a message of ICMP is about, if that is an error; it had this tuple.
pub(crate) fn read(zone: u16, icmp: u8, message: &[u8]) -> Option<(Embedded, Tuple)> {
    let (kind, packet) = (message.first()?, message.get(START..)?);
    let (ends, embedded) = match icmp {
        _ if !is_error(icmp, *kind) => return None,
        ip::ICMP => ipv4(zone, packet)?,
        _ => ipv6(zone, packet)?,
    };
    let header = message.get(embedded.transport..embedded.transport + TRANSPORT)?;
    let tuple = match embedded.protocol {
        protocol @ (ip::TCP | ip::UDP | ip::SCTP) => ends.ports(protocol, header)?,
        // An error about an error is none.
        protocol if protocol == icmp => ends.query(protocol, header)?.0,
        _ => return None,
    };
    Some((embedded, tuple))
}

/// Its length may be more than what is there.
fn ipv4(zone: u16, packet: &[u8]) -> Option<(Ends, Embedded)> {
    let fixed = packet.first_chunk::<20>()?;
    let header = 4 * usize::from(fixed[0] & 0x0f);
    let is_later = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    let [.., a, b, c, d, e, f, g, h] = *fixed;
    let address = |bytes: [u8; 4]| IpAddr::V4(Ipv4Addr::from(bytes));
    let ends = Ends { zone, source: address([a, b, c, d]), destination: address([e, f, g, h]) };
    let embedded = Embedded { transport: START + header, protocol: fixed[9] };
    (fixed[0] >> 4 == 4 && header >= fixed.len() && !is_later).then_some((ends, embedded))
}

fn ipv6(zone: u16, packet: &[u8]) -> Option<(Ends, Embedded)> {
    let (fixed, mut rest) = packet.split_first_chunk::<40>()?;
    if fixed[0] >> 4 != 6 {
        return None;
    }
    let address =
        |bytes: &[u8]| bytes.first_chunk().map(|bytes: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*bytes)));
    let ends = Ends { zone, source: address(&fixed[8..])?, destination: address(&fixed[24..])? };
    let mut protocol = fixed[6];
    while let HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | FRAGMENT = protocol {
        let [next, length, high, low, ..] = *rest.first_chunk::<8>()?;
        let is_fragment = protocol == FRAGMENT;
        if is_fragment && u16::from_be_bytes([high, low]) & 0xfff8 != 0 {
            return None;
        }
        let bytes = if is_fragment { 8 } else { 8 * (usize::from(length) + 1) };
        (protocol, rest) = (next, rest.get(bytes..)?);
    }
    Some((ends, Embedded { transport: START + packet.len() - rest.len(), protocol }))
}
