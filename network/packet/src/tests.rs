//! Frames that are built are read as they were meant, also after changes, and nothing that is read makes anything panic.

use crate::ethernet::{self, TAGGED};
use crate::{Field, FlowKey, build, extract, ip, rewrite};
use fulmar_node::Random;

fn any(random: &mut Random, field: Field) -> u128 {
    (u128::from(random.next()) << 64 | u128::from(random.next())) & field.ones()
}

fn one_of(random: &mut Random, values: &[u16]) -> u128 {
    values[usize::try_from(random.below(values.len() as u64)).expect("few")].into()
}

/// The key of some packet.
fn any_key(random: &mut Random) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    let mut fill = |key: &mut FlowKey, fields: &[Field]| {
        fields.iter().for_each(|field| key.set(*field, any(random, *field)));
    };
    fill(&mut key, &[Field::ETH_DESTINATION, Field::ETH_SOURCE]);
    let kinds = [
        ethernet::IPV4,
        ethernet::IPV4,
        ethernet::IPV6,
        ethernet::IPV6,
        ethernet::ARP,
        ethernet::MPLS,
        0x9000,
    ];
    let kind = one_of(random, &kinds);
    key.set(Field::ETH_TYPE, kind);
    for (tpid, tci) in [(Field::VLAN_TPID, Field::VLAN_TCI), (Field::INNER_VLAN_TPID, Field::INNER_VLAN_TCI)]
    {
        if random.one_in(2) {
            break;
        }
        key.set(tpid, one_of(random, &[ethernet::VLAN, ethernet::SERVICE_VLAN]));
        key.set(tci, any(random, tci) | u128::from(TAGGED));
    }
    let mut fill = |key: &mut FlowKey, fields: &[Field]| {
        fields.iter().for_each(|field| key.set(*field, any(random, *field)));
    };
    let addresses = [Field::IPV4_SOURCE, Field::IPV4_DESTINATION];
    match u16::try_from(kind).expect("16 bits") {
        ethernet::ARP => {
            fill(&mut key, &addresses);
            fill(&mut key, &[Field::ARP_SENDER, Field::ARP_TARGET, Field::IP_PROTOCOL]);
        }
        ethernet::MPLS => {
            fill(&mut key, &[Field::MPLS_LABEL, Field::MPLS_CLASS, Field::MPLS_BOTTOM, Field::MPLS_TTL])
        }
        ethernet::IPV4 => {
            fill(&mut key, &addresses);
            any_transport(random, &mut key, &[ip::TCP, ip::UDP, ip::SCTP, ip::ICMP, ip::IGMP, 99]);
        }
        ethernet::IPV6 => {
            fill(&mut key, &[Field::IPV6_SOURCE, Field::IPV6_DESTINATION, Field::IPV6_LABEL]);
            any_transport(random, &mut key, &[ip::TCP, ip::UDP, ip::SCTP, ip::ICMPV6, ip::ICMPV6, 99]);
        }
        _ => {}
    }
    key
}

fn any_transport(random: &mut Random, key: &mut FlowKey, protocols: &[u8]) {
    key.set(Field::IP_TOS, any(random, Field::IP_TOS));
    key.set(Field::IP_TTL, any(random, Field::IP_TTL));
    let protocol = protocols[usize::try_from(random.below(protocols.len() as u64)).expect("few")];
    key.set(Field::IP_PROTOCOL, protocol.into());
    if random.one_in(6) {
        key.set(Field::IP_FRAGMENT, if random.one_in(2) { 1 } else { 3 });
    }
    if key.get(Field::IP_FRAGMENT) == 3 && key.get(Field::ETH_TYPE) == ethernet::IPV6.into() {
        key.set(Field::IP_PROTOCOL, ip::FRAGMENT_HEADER.into());
    }
    let has_kind = [ip::ICMP, ip::ICMPV6, ip::IGMP].contains(&protocol);
    let is_known = has_kind || [ip::TCP, ip::UDP, ip::SCTP].contains(&protocol);
    if key.get(Field::IP_FRAGMENT) == 3 || !is_known {
        return;
    }
    for field in [Field::L4_SOURCE, Field::L4_DESTINATION] {
        key.set(field, any(random, field) & if has_kind { 0xff } else { 0xffff });
    }
    if protocol == ip::TCP {
        key.set(Field::TCP_FLAGS, any(random, Field::TCP_FLAGS));
    }
    if protocol == ip::ICMPV6 && random.one_in(2) {
        key.set(Field::L4_SOURCE, 135 + u128::from(random.below(2)));
        key.set(Field::L4_DESTINATION, 0);
        for field in [Field::ND_TARGET, Field::ARP_SENDER, Field::ARP_TARGET] {
            key.set(field, any(random, field));
        }
    }
}

fn key_of(frame: &[u8]) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    extract(frame, &mut key);
    key
}

#[test]
fn what_is_built_is_read_as_it_was_meant() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let key = any_key(&mut random);
        let frame = build(&key, b"payload of an odd length!");
        assert_eq!(key_of(&frame), key, "{frame:02x?}");
    }
}

/// What a frame is filled up with is no part of the packet.
#[test]
fn what_comes_after_a_packet_does_not_count() {
    let mut random = Random::new(2);
    for _ in 0..2_000 {
        let key = any_key(&mut random);
        let mut frame = build(&key, b"");
        frame.extend([0x55; 46]);
        assert_eq!(key_of(&frame), key);
    }
}

/// Each field that is found in a part of a frame is one of the whole frame's.
#[test]
fn of_what_is_cut_off_nothing_is_taken() {
    let mut random = Random::new(3);
    for _ in 0..500 {
        let key = any_key(&mut random);
        let frame = build(&key, b"");
        for length in 0..frame.len() {
            for (field, value) in key_of(&frame[..length]).fields() {
                // A tag that nothing comes behind is the type itself.
                let is_tag = [Field::ETH_TYPE, Field::VLAN_TCI, Field::VLAN_TPID].contains(&field)
                    || field == Field::INNER_VLAN_TCI
                    || field == Field::INNER_VLAN_TPID;
                assert!(is_tag || value == key.get(field), "{field:?} of {length} bytes of {key:?}");
            }
        }
    }
}

#[test]
fn whatever_bytes_come_there_is_a_key() {
    let mut random = Random::new(4);
    for _ in 0..50_000 {
        let mut frame = build(&any_key(&mut random), b"1234");
        for _ in 0..random.below(8) {
            let at = usize::try_from(random.below(frame.len() as u64)).expect("short");
            frame[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        frame.truncate(usize::try_from(random.below(1 + frame.len() as u64)).expect("short"));
        let mut key = FlowKey::EMPTY;
        let layers = extract(&frame, &mut key);
        let end = u16::try_from(frame.len()).expect("short");
        assert!(layers.network.is_none_or(|at| at <= end) && layers.transport.is_none_or(|at| at <= end));
        for field in REWRITTEN {
            rewrite(&mut frame, &key, layers, *field, (any(&mut random, *field), u128::MAX));
        }
    }
}

/// The fields that can be changed in a frame.
const REWRITTEN: &[Field] = &[
    Field::ETH_DESTINATION,
    Field::ETH_SOURCE,
    Field::VLAN_PCP,
    Field::VLAN_VID,
    Field::MPLS_LABEL,
    Field::MPLS_CLASS,
    Field::MPLS_TTL,
    Field::IPV4_SOURCE,
    Field::IPV4_DESTINATION,
    Field::IPV6_SOURCE,
    Field::IPV6_DESTINATION,
    Field::IPV6_LABEL,
    Field::IP_TOS,
    Field::IP_DSCP,
    Field::IP_ECN,
    Field::IP_TTL,
    Field::ARP_SENDER,
    Field::ARP_TARGET,
    Field::ND_TARGET,
    Field::L4_SOURCE,
    Field::L4_DESTINATION,
];

/// A changed frame is the one that would be built from the changed key: with the same checksums.
#[test]
fn what_is_changed_is_as_if_it_was_built_so() {
    let mut random = Random::new(5);
    let mut changed = 0;
    for _ in 0..60_000 {
        let mut key = any_key(&mut random);
        let mut frame = build(&key, b"even");
        let layers = extract(&frame, &mut FlowKey::EMPTY.clone());
        let field = REWRITTEN[usize::try_from(random.below(REWRITTEN.len() as u64)).expect("few")];
        let before = frame.clone();
        let (value, mask) = (any(&mut random, field), any(&mut random, field));
        rewrite(&mut frame, &key, layers, field, (value, mask));
        if frame == before {
            continue;
        }
        changed += 1;
        let has_kind =
            [ip::ICMP, ip::ICMPV6, ip::IGMP].iter().any(|kind| key.get(Field::IP_PROTOCOL) == (*kind).into());
        let is_number = matches!(field, Field::L4_SOURCE | Field::L4_DESTINATION);
        let mask = if has_kind && is_number { mask & 0xff } else { mask };
        let is_vid = field == Field::VLAN_VID;
        let was_about_neighbours = key.get(Field::ND_TARGET) != 0;
        key.set_masked(field, value, if is_vid { mask & 0x0fff } else { mask });
        // Other kinds of ICMP have no targets.
        let is_other_kind = was_about_neighbours || key_of(&frame).get(Field::ND_TARGET) != 0;
        // And what SCTP's checksum is over is not all in a fragment.
        let is_partial = key.get(Field::IP_PROTOCOL) == ip::SCTP.into() && key.get(Field::IP_FRAGMENT) != 0;
        if !is_number || !is_other_kind && !is_partial {
            assert_eq!(frame, build(&key, b"even"), "{field:?} of {key:?}");
        }
    }
    assert!(changed > 10_000, "{changed}");
}

/// RFC 768: a datagram without a checksum keeps none.
#[test]
fn a_datagram_without_a_checksum_keeps_none() {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_TYPE, ethernet::IPV4.into());
    key.set(Field::IP_PROTOCOL, ip::UDP.into());
    let mut frame = build(&key, b"");
    let layers = extract(&frame, &mut key);
    frame[40..42].fill(0);
    rewrite(&mut frame, &key, layers, Field::L4_DESTINATION, (53, u128::MAX));
    assert_eq!((frame[37], &frame[40..42]), (53, &[0, 0][..]));
}

/// RFC 8200, section 4: what comes behind them is found.
#[test]
fn extension_headers_are_passed_over() {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_TYPE, ethernet::IPV6.into());
    key.set(Field::IP_PROTOCOL, ip::UDP.into());
    key.set(Field::L4_DESTINATION, 53);
    let plain = build(&key, b"");
    // Hop-by-hop options, destination options of 16 bytes, authentication of 16 bytes.
    let headers: [&[u8]; 3] = [
        &[0, 0, 1, 4, 0, 0, 0, 0],
        &[0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    let mut frame = plain.clone();
    frame[20] = 0;
    let mut at = 54;
    for (header, next) in headers.iter().zip([60, 51, ip::UDP]) {
        let mut header = header.to_vec();
        header[0] = next;
        frame.splice(at..at, header.iter().copied());
        at += header.len();
    }
    let length = u16::try_from(frame.len() - 54).expect("short");
    frame[18..20].copy_from_slice(&length.to_be_bytes());
    assert_eq!(key_of(&frame), key);
}
