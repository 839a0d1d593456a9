//! From a key to a frame of which it is the key.

use crate::checksum::{Sum, checksum};
use crate::ethernet::{self, NOT_A_TYPE, TAGGED};
use crate::extract::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use crate::ip::{self, FRAGMENT, LATER};
use crate::rewrite::seal_sctp;
use crate::{Field, FlowKey};

/// A frame of which this is the key, as far as there is one, that carries `payload` behind its last header. Lengths and checksums
/// are right.
pub fn build(key: &FlowKey, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(128 + payload.len());
    put(&mut frame, key, Field::ETH_DESTINATION);
    put(&mut frame, key, Field::ETH_SOURCE);
    let tags = [(Field::VLAN_TPID, Field::VLAN_TCI), (Field::INNER_VLAN_TPID, Field::INNER_VLAN_TCI)];
    for (tpid, tci) in tags {
        let content = narrow(key, tci);
        if content & TAGGED != 0 {
            let tpid = if key.get(tpid) == 0 { ethernet::VLAN } else { narrow(key, tpid) };
            frame.extend(tpid.to_be_bytes());
            frame.extend((content & !TAGGED).to_be_bytes());
        }
    }
    let kind = narrow(key, Field::ETH_TYPE);
    if kind == NOT_A_TYPE {
        let length = u16::try_from(payload.len()).unwrap_or(u16::MAX).min(NOT_A_TYPE);
        frame.extend(length.to_be_bytes());
        frame.extend(payload);
        return frame;
    }
    frame.extend(kind.to_be_bytes());
    match kind {
        ethernet::IPV4 => ipv4(&mut frame, key, payload),
        ethernet::IPV6 => ipv6(&mut frame, key, payload),
        ethernet::ARP | ethernet::RARP => arp(&mut frame, key),
        ethernet::MPLS | ethernet::MPLS_MULTICAST => {
            let entry =
                u32::try_from(key.word(usize::from(Field::MPLS_LABEL.word)) >> 32).unwrap_or_default();
            frame.extend(entry.to_be_bytes());
            frame.extend(payload);
        }
        _ => frame.extend(payload),
    }
    frame
}

/// Appends a field of whole bytes.
fn put(out: &mut Vec<u8>, key: &FlowKey, field: Field) {
    let bytes = usize::from(field.bits()).div_ceil(8);
    out.extend(&key.get(field).to_be_bytes()[16 - bytes..]);
}

/// A field of no more than 16 bits.
fn narrow(key: &FlowKey, field: Field) -> u16 {
    u16::try_from(key.get(field)).unwrap_or_else(|_| unreachable!("it has no more bits"))
}

/// A field of no more than 8 bits.
fn byte(key: &FlowKey, field: Field) -> u8 {
    u8::try_from(key.get(field)).unwrap_or_else(|_| unreachable!("it has no more bits"))
}

fn ipv4(frame: &mut Vec<u8>, key: &FlowKey, payload: &[u8]) {
    let mut addresses = Vec::new();
    put(&mut addresses, key, Field::IPV4_SOURCE);
    put(&mut addresses, key, Field::IPV4_DESTINATION);
    let inside = transport(key, &addresses, payload, false);
    let fragment = byte(key, Field::IP_FRAGMENT);
    let offset: u16 = if fragment & LATER != 0 {
        100
    } else if fragment & FRAGMENT != 0 {
        0x2000
    } else {
        0
    };
    let length = u16::try_from(20 + inside.len()).unwrap_or(u16::MAX);
    let start = frame.len();
    frame.extend([0x45, byte(key, Field::IP_TOS)]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(offset.to_be_bytes());
    frame.extend([byte(key, Field::IP_TTL), byte(key, Field::IP_PROTOCOL), 0, 0]);
    frame.extend(addresses);
    let sum = checksum(&frame[start..]);
    frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(inside);
}

fn ipv6(frame: &mut Vec<u8>, key: &FlowKey, payload: &[u8]) {
    let mut addresses = Vec::new();
    put(&mut addresses, key, Field::IPV6_SOURCE);
    put(&mut addresses, key, Field::IPV6_DESTINATION);
    let inside = transport(key, &addresses, payload, true);
    let (fragment, protocol) = (byte(key, Field::IP_FRAGMENT), byte(key, Field::IP_PROTOCOL));
    let header = if fragment & FRAGMENT == 0 { 0 } else { 8 };
    let class_and_label = 6 << 28 | key.get(Field::IP_TOS) << 20 | key.get(Field::IPV6_LABEL);
    frame.extend(&class_and_label.to_be_bytes()[12..]);
    frame.extend(u16::try_from(header + inside.len()).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend([if header == 0 { protocol } else { ip::FRAGMENT_HEADER }, byte(key, Field::IP_TTL)]);
    frame.extend(addresses);
    if header > 0 {
        let offset: u16 = if fragment & LATER == 0 { 1 } else { 100 << 3 };
        frame.extend([protocol, 0]);
        frame.extend(offset.to_be_bytes());
        frame.extend([0; 4]);
    }
    frame.extend(inside);
}

/// What IP carries.
fn transport(key: &FlowKey, addresses: &[u8], payload: &[u8], is_ipv6: bool) -> Vec<u8> {
    let protocol = byte(key, Field::IP_PROTOCOL);
    if byte(key, Field::IP_FRAGMENT) & LATER != 0 {
        return payload.to_vec();
    }
    let mut out = Vec::new();
    let ports = |out: &mut Vec<u8>| {
        put(out, key, Field::L4_SOURCE);
        put(out, key, Field::L4_DESTINATION);
    };
    let kind = [narrow(key, Field::L4_SOURCE), narrow(key, Field::L4_DESTINATION)]
        .map(|number| number.to_be_bytes()[1]);
    // Where the checksum is, and whether it is over addresses, too.
    let (at, is_with_addresses) = match protocol {
        ip::TCP => {
            ports(&mut out);
            out.extend([0; 8]);
            out.extend((5 << 12 | narrow(key, Field::TCP_FLAGS)).to_be_bytes());
            out.extend([0; 6]);
            (16, true)
        }
        ip::UDP => {
            ports(&mut out);
            out.extend(u16::try_from(8 + payload.len()).unwrap_or(u16::MAX).to_be_bytes());
            out.extend([0; 2]);
            (6, true)
        }
        ip::SCTP => {
            ports(&mut out);
            out.extend([0; 8]);
            out.extend(payload);
            seal_sctp(&mut out);
            return out;
        }
        ip::ICMPV6 if is_ipv6 => {
            out.extend(kind);
            out.extend([0; 6]);
            if kind[1] == 0 && matches!(kind[0], NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) {
                put(&mut out, key, Field::ND_TARGET);
                for (option, field) in [(1, Field::ARP_SENDER), (2, Field::ARP_TARGET)] {
                    if key.get(field) != 0 {
                        out.extend([option, 1]);
                        put(&mut out, key, field);
                    }
                }
            }
            (2, true)
        }
        ip::ICMP | ip::IGMP if !is_ipv6 => {
            out.extend(kind);
            out.extend([0; 6]);
            (2, false)
        }
        _ => return payload.to_vec(),
    };
    // Behind a target there are only options.
    if key.get(Field::ND_TARGET) == 0 {
        out.extend(payload);
    }
    let before = if is_with_addresses {
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        Sum::default().pseudo_header(source, destination, protocol, out.len())
    } else {
        Sum::default()
    };
    let sum = match before.bytes(&out).finish() {
        0 if protocol == ip::UDP => 0xffff,
        sum => sum,
    };
    out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    out
}

fn arp(frame: &mut Vec<u8>, key: &FlowKey) {
    frame.extend([0, 1, 8, 0, 6, 4, 0, byte(key, Field::IP_PROTOCOL)]);
    for field in [Field::ARP_SENDER, Field::IPV4_SOURCE, Field::ARP_TARGET, Field::IPV4_DESTINATION] {
        put(frame, key, field);
    }
}
