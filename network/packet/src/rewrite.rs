//! A field of a frame changed where it is, with the checksums over it.

use crate::checksum::updated;
use crate::ip;
use crate::{Field, FlowKey, Layers, ethernet};
use std::ops::Range;

/// Where in a frame a field is: in a whole number of 16-bit words, as a checksum counts them, so many bits from their end.
struct Place {
    at: usize,
    bytes: usize,
    shift: u8,
}

impl Place {
    const fn new(at: usize, bytes: usize, shift: u8) -> Self {
        Self { at, bytes, shift }
    }
}

/// What else depends on a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    Nothing,
    /// The checksum of the IPv4 header.
    Header,
    /// That, if there is one, and that of the transport, which knows the addresses.
    Addresses,
    /// That of the transport.
    Transport,
}

/// Sets those bits of a field that `mask` has, in a frame of which `key` and `layers` have been extracted; checksums over it stay as
/// right as they were. A frame that does not have the field stays as it is, and so does `key` always.
///
/// Of fields that share a place, such as ports and ICMP's type, the one that the frame has is meant.
pub fn rewrite(frame: &mut [u8], key: &FlowKey, layers: Layers, field: Field, (value, mask): (u128, u128)) {
    let Some((place, sums)) = place(frame, key, layers, field) else { return };
    let crc = sctp(frame, key, layers).filter(|_| sums == Sums::Transport);
    let crc_before = crc.as_ref().map(|packet| sctp_sum(&frame[packet.clone()]));
    let Some(bytes) = frame.get_mut(place.at..place.at + place.bytes) else { return };
    let mut before = [0; 16];
    let before = &mut before[..bytes.len()];
    before.copy_from_slice(bytes);
    let mask = (mask & carried(key, field)) << place.shift;
    let old = bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let new = (old & !mask | (value << place.shift) & mask).to_be_bytes();
    bytes.copy_from_slice(&new[16 - bytes.len()..]);
    let mut after = [0; 16];
    let after = &mut after[..before.len()];
    after.copy_from_slice(bytes);
    let is_ipv4 = key.get(Field::ETH_TYPE) == ethernet::IPV4.into();
    if let (Sums::Header | Sums::Addresses, true, Some(network)) = (sums, is_ipv4, layers.network) {
        update(frame, usize::from(network) + 10, before, after);
    }
    if let (Sums::Addresses | Sums::Transport, Some(transport)) = (sums, layers.transport) {
        update_transport(frame, key, transport.into(), sums, (before, after));
    }
    if let (Some(packet), Some(before)) = (crc, crc_before) {
        let packet = &mut frame[packet];
        let (was, is) = (before.to_le_bytes(), sctp_sum(packet).to_le_bytes());
        for (byte, change) in packet[8..12].iter_mut().zip(was.into_iter().zip(is)) {
            *byte ^= change.0 ^ change.1;
        }
    }
}

/// Where an SCTP packet is, if it is whole: a fragment does not have all that its sum is over.
fn sctp(frame: &[u8], key: &FlowKey, layers: Layers) -> Option<Range<usize>> {
    let transport = usize::from(layers.transport?);
    let is_ipv4 = key.get(Field::ETH_TYPE) == ethernet::IPV4.into();
    let end = end(frame, layers.network?.into(), is_ipv4);
    let is_whole = key.get(Field::IP_FRAGMENT) == 0 && end >= transport + 12;
    (is_whole && key.get(Field::IP_PROTOCOL) == ip::SCTP.into()).then_some(transport..end)
}

fn update(frame: &mut [u8], at: usize, before: &[u8], after: &[u8]) {
    if let Some(sum) = frame.get_mut(at..at + 2) {
        let old = u16::from_be_bytes([sum[0], sum[1]]);
        sum.copy_from_slice(&updated(old, before, after).to_be_bytes());
    }
}

fn update_transport(
    frame: &mut [u8],
    key: &FlowKey,
    transport: usize,
    sums: Sums,
    (before, after): (&[u8], &[u8]),
) {
    let protocol = u8::try_from(key.get(Field::IP_PROTOCOL)).unwrap_or_default();
    match protocol {
        ip::TCP => update(frame, transport + 16, before, after),
        ip::UDP => {
            let at = transport + 6;
            // None is sent as 0, so that a sum of 0 is sent as its other form (RFC 768).
            if frame.get(at..at + 2).is_some_and(|sum| *sum != [0, 0]) {
                update(frame, at, before, after);
                if frame[at..at + 2] == [0, 0] {
                    frame[at..at + 2].fill(0xff);
                }
            }
        }
        ip::ICMPV6 => update(frame, transport + 2, before, after),
        ip::ICMP | ip::IGMP if sums == Sums::Transport => update(frame, transport + 2, before, after),
        _ => {}
    }
}

/// Where what IP carries ends: frames are filled up.
fn end(frame: &[u8], network: usize, is_ipv4: bool) -> usize {
    let (at, before) = if is_ipv4 { (network + 2, 0) } else { (network + 4, 40) };
    let length = frame.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    (network + before + usize::from(length)).min(frame.len())
}

/// What the checksum of an SCTP packet should be (RFC 9260, appendix A).
fn sctp_sum(packet: &[u8]) -> u32 {
    let (before, rest) = packet.split_at(8);
    let sum = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    crc32c::crc32c_append(sum, &rest[4..])
}

/// Writes the checksum into an SCTP packet.
pub(crate) fn seal_sctp(packet: &mut [u8]) {
    let sum = sctp_sum(packet);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
}

fn place(frame: &[u8], key: &FlowKey, layers: Layers, field: Field) -> Option<(Place, Sums)> {
    match field {
        Field::ETH_DESTINATION => return Some((Place::new(0, 6, 0), Sums::Nothing)),
        Field::ETH_SOURCE => return Some((Place::new(6, 6, 0), Sums::Nothing)),
        _ => {}
    }
    let is_tagged = key.get(Field::VLAN_TCI) != 0;
    match field {
        Field::VLAN_PCP => return is_tagged.then_some((Place::new(14, 2, 13), Sums::Nothing)),
        Field::VLAN_TCI | Field::VLAN_VID => {
            return is_tagged.then_some((Place::new(14, 2, 0), Sums::Nothing));
        }
        _ => {}
    }
    let network = usize::from(layers.network?);
    let at = |offset, bytes, shift| Place::new(network + offset, bytes, shift);
    let transport = || layers.transport.map(usize::from);
    // Without it nothing is known of the header: it is cut off, or impossible.
    let has_header = key.get(Field::IP_PROTOCOL) != 0;
    let kind = u16::try_from(key.get(Field::ETH_TYPE)).unwrap_or_default();
    if matches!(kind, ethernet::IPV4 | ethernet::IPV6 | ethernet::ARP | ethernet::RARP) && !has_header {
        return None;
    }
    Some(match (kind, field) {
        (ethernet::IPV4, Field::IPV4_SOURCE) => (at(12, 4, 0), Sums::Addresses),
        (ethernet::IPV4, Field::IPV4_DESTINATION) => (at(16, 4, 0), Sums::Addresses),
        (ethernet::IPV4, Field::IP_TOS | Field::IP_ECN) => (at(0, 2, 0), Sums::Header),
        (ethernet::IPV4, Field::IP_DSCP) => (at(0, 2, 2), Sums::Header),
        (ethernet::IPV4, Field::IP_TTL) => (at(8, 2, 8), Sums::Header),
        (ethernet::IPV6, Field::IPV6_SOURCE) => (at(8, 16, 0), Sums::Addresses),
        (ethernet::IPV6, Field::IPV6_DESTINATION) => (at(24, 16, 0), Sums::Addresses),
        (ethernet::IPV6, Field::IPV6_LABEL) => (at(0, 4, 0), Sums::Nothing),
        (ethernet::IPV6, Field::IP_TOS | Field::IP_ECN) => (at(0, 4, 20), Sums::Nothing),
        (ethernet::IPV6, Field::IP_DSCP) => (at(0, 4, 22), Sums::Nothing),
        (ethernet::IPV6, Field::IP_TTL) => (at(6, 2, 0), Sums::Nothing),
        (ethernet::ARP | ethernet::RARP, Field::IP_PROTOCOL) => (at(6, 2, 0), Sums::Nothing),
        (ethernet::ARP | ethernet::RARP, Field::ARP_SENDER) => (at(8, 6, 0), Sums::Nothing),
        (ethernet::ARP | ethernet::RARP, Field::IPV4_SOURCE) => (at(14, 4, 0), Sums::Nothing),
        (ethernet::ARP | ethernet::RARP, Field::ARP_TARGET) => (at(18, 6, 0), Sums::Nothing),
        (ethernet::ARP | ethernet::RARP, Field::IPV4_DESTINATION) => (at(24, 4, 0), Sums::Nothing),
        (ethernet::MPLS | ethernet::MPLS_MULTICAST, Field::MPLS_LABEL) => (at(0, 4, 12), Sums::Nothing),
        (ethernet::MPLS | ethernet::MPLS_MULTICAST, Field::MPLS_CLASS) => (at(0, 4, 9), Sums::Nothing),
        (ethernet::MPLS | ethernet::MPLS_MULTICAST, Field::MPLS_TTL) => (at(0, 4, 0), Sums::Nothing),
        (ethernet::IPV4 | ethernet::IPV6, Field::L4_SOURCE) => {
            (Place::new(transport()?, 2, if has_kind(key) { 8 } else { 0 }), Sums::Transport)
        }
        (ethernet::IPV4 | ethernet::IPV6, Field::L4_DESTINATION) => {
            let after = if has_kind(key) { 0 } else { 2 };
            (Place::new(transport()? + after, 2, 0), Sums::Transport)
        }
        (ethernet::IPV6, Field::ND_TARGET) if key.get(field) != 0 => {
            (Place::new(transport()? + 8, 16, 0), Sums::Transport)
        }
        (ethernet::IPV6, Field::ARP_SENDER | Field::ARP_TARGET) if key.get(Field::ND_TARGET) != 0 => {
            let options = &frame[..end(frame, network, false)];
            let kind = if field == Field::ARP_SENDER { 1 } else { 2 };
            (Place::new(link_address(options, transport()? + 24, kind)?, 6, 0), Sums::Transport)
        }
        _ => return None,
    })
}

/// Where the address is in the first option of a kind that has one; options begin at `at` (RFC 4861, section 4.6.1).
fn link_address(options: &[u8], mut at: usize, kind: u8) -> Option<usize> {
    loop {
        let [found, length] = *options.get(at..)?.first_chunk()?;
        match (found, length) {
            (_, 0) => return None,
            (found, 1) if found == kind => return Some(at + 2),
            _ => at += 8 * usize::from(length),
        }
    }
}

/// The bits of a field that a frame has.
fn carried(key: &FlowKey, field: Field) -> u128 {
    match field {
        Field::VLAN_TCI | Field::VLAN_VID => field.ones() & !u128::from(ethernet::TAGGED),
        Field::L4_SOURCE | Field::L4_DESTINATION if has_kind(key) => 0xff,
        _ => field.ones(),
    }
}

/// Whether it has a type and a code in the place of ports.
fn has_kind(key: &FlowKey) -> bool {
    [ip::ICMP, ip::ICMPV6, ip::IGMP]
        .iter()
        .any(|protocol| key.get(Field::IP_PROTOCOL) == u128::from(*protocol))
}
