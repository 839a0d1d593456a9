//! Random frames of all that the switch reads, whole and spoilt.

use fulmar_node::Random;
use fulmar_packet::{Field, FlowKey, build, ethernet, extract, ip};

/// Of 02:00:00:00:00:00 and on are they that send, of 06:00:00:00:00:00 and on they that receive.
pub(crate) const SENDER: u64 = 0x0200_0000_0000;
pub(crate) const RECEIVER: u64 = 0x0600_0000_0000;

/// A frame that comes in at a port; the number tells it from all others.
pub(crate) fn frame(random: &mut Random, port: u32, number: u32) -> Vec<u8> {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_SOURCE, (SENDER + random.below(4)).into());
    key.set(Field::ETH_DESTINATION, (RECEIVER + random.below(4)).into());
    if random.one_in(16) {
        key.set(Field::ETH_DESTINATION, 0x0180_c200_000e);
    }
    let tags = [(Field::VLAN_TPID, Field::VLAN_TCI), (Field::INNER_VLAN_TPID, Field::INNER_VLAN_TCI)];
    for (tpid, tci) in tags.into_iter().take(random.weighted(&[6, 3, 1])) {
        let kind = *random.choose(&[ethernet::VLAN, ethernet::VLAN, ethernet::SERVICE_VLAN]).expect("some");
        key.set(tpid, kind.into());
        let priority = if random.one_in(2) { random.below(8) << 13 } else { 0 };
        key.set(tci, u128::from(u64::from(ethernet::TAGGED) | priority | random.below(4)));
    }
    match random.below(16) {
        0 => arp(random, &mut key),
        1 => {
            let kind = if random.one_in(4) { ethernet::MPLS_MULTICAST } else { ethernet::MPLS };
            key.set(Field::ETH_TYPE, kind.into());
            // When it changes a part of a label, Open vSwitch writes the whole, and does so for all others at this port, too.
            key.set(Field::MPLS_LABEL, (15 + port).into());
            key.set(Field::MPLS_CLASS, port.into());
            key.set(Field::MPLS_TTL, (port - 1).into());
            key.set(Field::MPLS_BOTTOM, 1);
        }
        2 => key.set(Field::ETH_TYPE, 0x1234),
        3 => key.set(Field::ETH_TYPE, ethernet::NOT_A_TYPE.into()),
        4..8 => {
            key.set(Field::ETH_TYPE, ethernet::IPV6.into());
            key.set(Field::IPV6_SOURCE, 0x2001_0db8 << 96 | u128::from(random.below(4)));
            key.set(Field::IPV6_DESTINATION, 0x2001_0db8 << 96 | u128::from(random.below(4)));
            key.set(Field::IPV6_LABEL, random.below(2).into());
            transport(random, &mut key, &[ip::TCP, ip::UDP, ip::SCTP, ip::ICMPV6, ip::ICMPV6, 50]);
        }
        _ => {
            key.set(Field::ETH_TYPE, ethernet::IPV4.into());
            key.set(Field::IPV4_SOURCE, address(random));
            key.set(Field::IPV4_DESTINATION, address(random));
            transport(random, &mut key, &[ip::TCP, ip::UDP, ip::SCTP, ip::ICMP, ip::IGMP, 50]);
        }
    }
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(4 + random.index(24), 0x5a);
    if matches!(key.get(Field::MPLS_BOTTOM), 1) {
        payload = behind_label(random, port, &mut key, &payload);
    }
    let mut frame = build(&key, &payload);
    // A label more than Open vSwitch knows changes what it does.
    if !matches!(frame[12..14], [0x88, 0x47 | 0x48]) {
        spoil(random, &mut frame);
    }
    // Whatever it has become, it is long enough for its addresses and its type.
    frame.extend(number.to_be_bytes());
    frame.resize(frame.len().max(14), 0);
    frame
}

fn address(random: &mut Random) -> u128 {
    (0x0a00_0000 | random.below(2) << 16 | random.below(2) << 8 | random.below(4)).into()
}

fn arp(random: &mut Random, key: &mut FlowKey) {
    let kind = if random.one_in(4) { ethernet::RARP } else { ethernet::ARP };
    key.set(Field::ETH_TYPE, kind.into());
    key.set(Field::IP_PROTOCOL, (1 + random.below(2)).into());
    key.set(Field::IPV4_SOURCE, address(random));
    key.set(Field::IPV4_DESTINATION, address(random));
    key.set(Field::ARP_SENDER, (SENDER + random.below(4)).into());
    key.set(Field::ARP_TARGET, (RECEIVER + random.below(4)).into());
}

/// What IP has, and what it carries.
fn transport(random: &mut Random, key: &mut FlowKey, protocols: &[u8]) {
    let protocol = *random.choose(protocols).expect("there are some");
    key.set(Field::IP_PROTOCOL, protocol.into());
    key.set(Field::IP_TTL, [0, 1, 2, 64][random.index(4)]);
    key.set(Field::IP_TOS, if random.one_in(3) { random.below(256).into() } else { 0 });
    if random.one_in(12) {
        let later = if random.one_in(2) { fulmar_packet::LATER } else { 0 };
        key.set(Field::IP_FRAGMENT, (fulmar_packet::FRAGMENT | later).into());
    }
    match protocol {
        ip::ICMPV6 if random.one_in(2) => {
            key.set(Field::L4_SOURCE, (135 + random.below(2)).into());
            key.set(Field::ND_TARGET, 0x2001_0db8 << 96 | u128::from(1 + random.below(3)));
            // Of the two addresses the one that belongs to this kind: Open vSwitch changes none behind the other.
            let asks = key.get(Field::L4_SOURCE) == 135;
            if random.one_in(2) {
                let field = if asks { Field::ARP_SENDER } else { Field::ARP_TARGET };
                key.set(field, (SENDER + random.below(3)).into());
            }
        }
        ip::ICMP | ip::IGMP | ip::ICMPV6 => {
            key.set(Field::L4_SOURCE, [0, 3, 8, 128][random.index(4)]);
            key.set(Field::L4_DESTINATION, random.below(2).into());
        }
        _ => {
            key.set(Field::L4_SOURCE, random.below(8).into());
            key.set(Field::L4_DESTINATION, random.below(32).into());
            key.set(Field::TCP_FLAGS, random.below(64).into());
        }
    }
}

/// Another label, or IP, behind the first.
fn behind_label(random: &mut Random, port: u32, key: &mut FlowKey, payload: &[u8]) -> Vec<u8> {
    let mut labels = Vec::new();
    if port.is_multiple_of(2) {
        key.set(Field::MPLS_BOTTOM, 0);
        labels.extend([0, 1, 1, 7]);
    }
    let mut inner = FlowKey::EMPTY;
    inner.set(Field::ETH_TYPE, ethernet::IPV4.into());
    inner.set(Field::IPV4_SOURCE, address(random));
    inner.set(Field::IPV4_DESTINATION, address(random));
    transport(random, &mut inner, &[ip::TCP, ip::UDP]);
    labels.extend(&build(&inner, payload)[14..]);
    labels
}

/// One of some is cut off, has another byte, no checksum, or a third tag.
fn spoil(random: &mut Random, frame: &mut Vec<u8>) {
    match random.below(20) {
        0 => frame.truncate(14 + random.index(frame.len().saturating_sub(14))),
        1 if frame.len() > 14 => {
            let at = 12 + random.index((frame.len() - 12).min(60));
            // Open vSwitch does not look at the version of IP.
            let network = extract(frame, &mut FlowKey::EMPTY.clone()).network.map(usize::from);
            let at = if Some(at) == network { at + 1 } else { at };
            frame[at] = u8::try_from(random.below(256)).unwrap_or_default();
        }
        2 => {
            let tag = [0x81, 0x00, 0x00, u8::try_from(random.below(4)).unwrap_or_default()];
            frame.splice(12..12, tag);
        }
        3 if frame[12..14] == [8, 0] && frame[23] == ip::UDP && frame.len() > 42 => frame[40..42].fill(0),
        _ => {}
    }
}
