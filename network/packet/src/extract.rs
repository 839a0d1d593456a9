//! From a frame to its key.

use crate::ethernet::{self, Ethernet};
use crate::ip::{self, Ipv4, Ipv6, LATER};
use crate::{Field, FlowKey, Stage};

/// Where the layers of a frame begin, bytes from its front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// What comes after the type, if there is any.
    pub network: Option<u16>,
    /// What IP carries, if that is the beginning of something that has ports, or a type.
    pub transport: Option<u16>,
}

impl Layers {
    /// The same layers, if each is elsewhere in the frame: nowhere, if that is impossible.
    #[must_use]
    pub fn map(self, moved: impl Fn(u16) -> Option<u16>) -> Self {
        Self { network: self.network.and_then(&moved), transport: self.transport.and_then(&moved) }
    }
}

/// Replaces what a key says of L2, L3 and L4 by what is in a frame. Of a header that is cut off, or whose lengths are impossible,
/// nothing is known, nor of what would come after it.
pub fn extract(frame: &[u8], key: &mut FlowKey) -> Layers {
    key.clear_from(Stage::L2);
    let mut layers = Layers::default();
    let Some(header) = Ethernet::parse(frame) else { return layers };
    let mut after = header.after_addresses();
    for (tpid, tci) in [(Field::VLAN_TPID, Field::VLAN_TCI), (Field::INNER_VLAN_TPID, Field::INNER_VLAN_TCI)]
    {
        let Some(((tag, content), rest)) = ethernet::vlan_tag(after) else { break };
        key.set(tpid, tag.into());
        key.set(tci, (content | ethernet::TAGGED).into());
        after = rest;
    }
    // Nothing comes after addresses that was not there when they were parsed, and after a tag there is something.
    let Some((kind, payload)) = ethernet::payload(after) else { return layers };
    let l2 = Stage::L2.start();
    key.put(l2, header.destination() << 16 | u64::from(kind));
    key.put(l2 + 1, header.source() << 16);
    layers.network = offset(frame, payload);
    let transport = match kind {
        ethernet::IPV4 => ipv4(payload, key),
        ethernet::IPV6 => ipv6(payload, key),
        ethernet::ARP | ethernet::RARP => {
            arp(payload, key);
            None
        }
        ethernet::MPLS | ethernet::MPLS_MULTICAST => {
            mpls(payload, key);
            None
        }
        _ => None,
    };
    layers.transport = transport.and_then(|transport| offset(frame, transport));
    layers
}

/// Where a part of a frame begins in it.
fn offset(frame: &[u8], part: &[u8]) -> Option<u16> {
    u16::try_from(part.as_ptr().addr() - frame.as_ptr().addr()).ok()
}

fn ipv4<'a>(bytes: &'a [u8], key: &mut FlowKey) -> Option<&'a [u8]> {
    let header = Ipv4::parse(bytes)?;
    let l3 = Stage::L3.start();
    key.put(l3, u64::from(header.source()) << 32 | u64::from(header.destination()));
    let (protocol, fragment) = (header.protocol(), header.fragment());
    network(key, protocol, (header.tos(), header.ttl(), fragment), 0);
    if fragment & LATER != 0 {
        return None;
    }
    transport(protocol, header.payload(), false, key).then_some(header.payload())
}

fn ipv6<'a>(bytes: &'a [u8], key: &mut FlowKey) -> Option<&'a [u8]> {
    let header = Ipv6::parse(bytes)?;
    key.set(Field::IPV6_SOURCE, header.source());
    key.set(Field::IPV6_DESTINATION, header.destination());
    let upper = header.upper()?;
    network(key, upper.protocol, (header.class(), header.hop_limit(), upper.fragment), header.label());
    if upper.fragment & LATER != 0 {
        return None;
    }
    transport(upper.protocol, upper.payload, true, key).then_some(upper.payload)
}

/// The word that both IPs have.
fn network(key: &mut FlowKey, protocol: u8, (tos, ttl, fragment): (u8, u8, u8), label: u32) {
    let rest = u32::from_be_bytes([protocol, tos, ttl, fragment]);
    key.put(usize::from(Field::IP_PROTOCOL.word), u64::from(label) << 32 | u64::from(rest));
}

/// Says whether its header is known, and whole.
fn transport(protocol: u8, bytes: &[u8], is_ipv6: bool, key: &mut FlowKey) -> bool {
    let ports = |[a, b, c, d]: [u8; 4]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let (ports, flags) = match (protocol, bytes) {
        (ip::TCP, [a, b, c, d, _, _, _, _, _, _, _, _, e, f, _, _, _, _, _, _, ..])
            if (20..=bytes.len()).contains(&(4 * usize::from(*e >> 4))) =>
        {
            (ports([*a, *b, *c, *d]), u16::from_be_bytes([*e, *f]) & 0x0fff)
        }
        (ip::UDP, [a, b, c, d, _, _, _, _, ..]) | (ip::SCTP, [a, b, c, d, _, _, _, _, _, _, _, _, ..]) => {
            (ports([*a, *b, *c, *d]), 0)
        }
        (ip::ICMP | ip::IGMP, [kind, code, _, _, _, _, _, _, ..]) if !is_ipv6 => {
            ((u16::from(*kind), (*code).into()), 0)
        }
        (ip::ICMPV6, [kind, code, _, _, _, _, _, _, ..]) if is_ipv6 => {
            if *code == 0 && matches!(*kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) {
                neighbour_discovery(bytes, key);
            }
            ((u16::from(*kind), (*code).into()), 0)
        }
        _ => return false,
    };
    let (source, destination) = (u64::from(ports.0), u64::from(ports.1));
    key.put(Stage::L4.start(), source << 48 | destination << 32 | u64::from(flags) << 16);
    true
}

/// A node asks for another's link-layer address…
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// …or tells its own.
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Whom it is about, and the first link-layer addresses; nothing, if options are cut off or come twice (RFC 4861, section 4).
fn neighbour_discovery(bytes: &[u8], key: &mut FlowKey) {
    let Some((target, mut options)) = bytes[8..].split_first_chunk() else { return };
    let mut addresses = [None; 2];
    while !options.is_empty() {
        let Some([_, length]) = options.first_chunk() else { return };
        let split = options.split_at_checked(8 * usize::from(*length));
        let Some((option, rest)) = split.filter(|(option, _)| !option.is_empty()) else { return };
        if let [kind @ 1..=2, 1, a, b, c, d, e, f] = *option {
            let known = &mut addresses[usize::from(kind) - 1];
            if known.replace(u64::from_be_bytes([0, 0, a, b, c, d, e, f])).is_some() {
                return;
            }
        }
        options = rest;
    }
    key.set(Field::ND_TARGET, u128::from_be_bytes(*target));
    for (field, address) in [Field::ARP_SENDER, Field::ARP_TARGET].into_iter().zip(addresses) {
        key.set(field, address.unwrap_or_default().into());
    }
}

/// Of Ethernet and IPv4 alone (RFC 826).
fn arp(bytes: &[u8], key: &mut FlowKey) {
    let Some(([0, 1, 8, 0, 6, 4, high, low], addresses)) = bytes.split_first_chunk() else { return };
    let Some(addresses) = addresses.first_chunk::<20>() else { return };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
    key.set(Field::ARP_SENDER, number(&addresses[..6]));
    key.set(Field::IPV4_SOURCE, number(&addresses[6..10]));
    key.set(Field::ARP_TARGET, number(&addresses[10..16]));
    key.set(Field::IPV4_DESTINATION, number(&addresses[16..]));
    if *high == 0 {
        key.set(Field::IP_PROTOCOL, (*low).into());
    }
}

/// The outermost label (RFC 3032).
fn mpls(bytes: &[u8], key: &mut FlowKey) {
    let Some(entry) = bytes.first_chunk() else { return };
    key.put(usize::from(Field::MPLS_LABEL.word), u64::from(u32::from_be_bytes(*entry)) << 32);
}
