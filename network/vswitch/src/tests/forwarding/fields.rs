//! Fields that actions set: the whole frame is as if it had been made with them, checksums and all.

use super::through;
use fulmar_packet::{Field, FlowKey, ethernet, ip};

fn key(kind: u16, protocol: u8) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_SOURCE, 0x0200_0000_0001);
    key.set(Field::ETH_DESTINATION, 0x0200_0000_0002);
    key.set(Field::ETH_TYPE, kind.into());
    key.set(Field::IP_PROTOCOL, protocol.into());
    if kind != ethernet::ARP {
        key.set(Field::IP_TTL, 64);
        key.set(Field::L4_SOURCE, 8);
    }
    key
}

/// Actions on packets of a kind, and what fields they then have.
fn check(asked: &str, (kind, protocol): (u16, u8), cases: &[(&str, Field, u128)]) {
    for (actions, field, value) in cases {
        let key = key(kind, protocol);
        let mut expected = key.clone();
        expected.set(*field, *value);
        let expected = fulmar_packet::build(&expected, b"content");
        assert_eq!(through(actions, asked, &key), expected, "{asked} {actions}");
    }
}

#[test]
fn of_ethernet() {
    let cases = [
        ("set_field:02:00:00:00:00:07->eth_src", Field::ETH_SOURCE, 0x0200_0000_0007),
        ("set_field:02:00:00:00:00:07->eth_dst", Field::ETH_DESTINATION, 0x0200_0000_0007),
        ("load:7->NXM_OF_ETH_DST[0..7]", Field::ETH_DESTINATION, 0x0200_0000_0007),
        ("move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]", Field::ETH_DESTINATION, 0x0200_0000_0001),
        ("push:NXM_OF_ETH_SRC[],pop:NXM_OF_ETH_DST[]", Field::ETH_DESTINATION, 0x0200_0000_0001),
    ];
    check("", (ethernet::IPV4, ip::TCP), &cases);
}

#[test]
fn of_ipv4_and_what_it_carries() {
    let cases = [
        ("set_field:10.0.0.1->ip_src", Field::IPV4_SOURCE, 0x0a00_0001),
        ("set_field:10.0.0.1->ip_dst", Field::IPV4_DESTINATION, 0x0a00_0001),
        ("set_field:33->ip_dscp", Field::IP_DSCP, 33),
        ("set_field:2->nw_ecn", Field::IP_ECN, 2),
        ("set_field:9->nw_ttl", Field::IP_TTL, 9),
        ("dec_ttl", Field::IP_TTL, 63),
        ("load:3->NXM_OF_IP_DST[0..3],load:1->NXM_OF_IP_DST[4]", Field::IPV4_DESTINATION, 0x13),
    ];
    for (asked, protocol) in [("tcp", ip::TCP), ("udp", ip::UDP), ("sctp", ip::SCTP), ("icmp", ip::ICMP)] {
        check(asked, (ethernet::IPV4, protocol), &cases);
    }
}

#[test]
fn of_ipv6_and_what_it_carries() {
    let cases = [
        ("set_field:2001:db8::1->ipv6_src", Field::IPV6_SOURCE, 0x2001_0db8 << 96 | 1),
        ("set_field:2001:db8::1->ipv6_dst", Field::IPV6_DESTINATION, 0x2001_0db8 << 96 | 1),
        ("set_field:0x12345->ipv6_label", Field::IPV6_LABEL, 0x12345),
        ("set_field:33->ip_dscp", Field::IP_DSCP, 33),
        ("dec_ttl", Field::IP_TTL, 63),
    ];
    for (asked, protocol) in
        [("tcp6", ip::TCP), ("udp6", ip::UDP), ("sctp6", ip::SCTP), ("icmp6", ip::ICMPV6)]
    {
        check(asked, (ethernet::IPV6, protocol), &cases);
    }
}

#[test]
fn of_ports_and_types() {
    for (name, protocol) in [("tcp", ip::TCP), ("udp", ip::UDP), ("sctp", ip::SCTP)] {
        for (asked, kind) in [(name.to_owned(), ethernet::IPV4), (format!("{name}6"), ethernet::IPV6)] {
            let source = format!("set_field:99->{name}_src");
            let destination = format!("set_field:99->{name}_dst");
            let cases =
                [(source.as_str(), Field::L4_SOURCE, 99), (destination.as_str(), Field::L4_DESTINATION, 99)];
            check(&asked, (kind, protocol), &cases);
        }
    }
    let kind = [
        ("set_field:3->icmp_type", Field::L4_SOURCE, 3),
        ("set_field:3->icmp_code", Field::L4_DESTINATION, 3),
    ];
    check("icmp", (ethernet::IPV4, ip::ICMP), &kind);
    let kind = [("set_field:3->icmpv6_type", Field::L4_SOURCE, 3)];
    check("icmp6", (ethernet::IPV6, ip::ICMPV6), &kind);
}

#[test]
fn of_arp() {
    let cases = [
        ("set_field:2->arp_op", Field::IP_PROTOCOL, 2),
        ("set_field:10.0.0.1->arp_spa", Field::IPV4_SOURCE, 0x0a00_0001),
        ("set_field:10.0.0.1->arp_tpa", Field::IPV4_DESTINATION, 0x0a00_0001),
        ("set_field:02:00:00:00:00:07->arp_sha", Field::ARP_SENDER, 0x0200_0000_0007),
        ("move:NXM_OF_ETH_SRC[]->NXM_NX_ARP_THA[]", Field::ARP_TARGET, 0x0200_0000_0001),
    ];
    check("arp", (ethernet::ARP, 1), &cases);
}

#[test]
fn of_neighbours() {
    let neighbour = |kind: u128| {
        let mut key = key(ethernet::IPV6, ip::ICMPV6);
        key.set(Field::L4_SOURCE, kind);
        key.set(Field::ND_TARGET, 5);
        key.set(Field::ARP_SENDER, 0x0200_0000_0005);
        key.set(Field::ARP_TARGET, 0x0200_0000_0006);
        key
    };
    let cases = [
        (135, "set_field:::7->nd_target", Field::ND_TARGET, 7),
        (135, "set_field:02:00:00:00:00:07->nd_sll", Field::ARP_SENDER, 0x0200_0000_0007),
        (136, "set_field:02:00:00:00:00:07->nd_tll", Field::ARP_TARGET, 0x0200_0000_0007),
    ];
    for (kind, actions, field, value) in cases {
        let mut expected = neighbour(kind);
        expected.set(field, value);
        let asked = format!("icmp6,icmp_type={kind},icmp_code=0");
        let frame = through(actions, &asked, &neighbour(kind));
        assert_eq!(frame, fulmar_packet::build(&expected, b""), "{actions}");
    }
}

#[test]
fn a_packet_at_the_end_of_its_life_goes_nowhere_but_to_controllers() {
    let mut expired = key(ethernet::IPV4, ip::TCP);
    expired.set(Field::IP_TTL, 1);
    let mut bench = super::Bench::with(
        3,
        &["ip actions=output:3,dec_ttl,output:2,goto_table:1", "table=1 actions=output:2"],
    );
    let sent = bench.send(1, &fulmar_packet::build(&expired, b""));
    assert_eq!(sent.ports(), [3]);
    assert_eq!(sent.notices[0].0.reason, fulmar_openflow::packet_in::PacketInReason::InvalidTtl);
    // The flow that it came from goes on.
    let flows = ["ip actions=resubmit(,1),output:2", "table=1,ip actions=dec_ttl,output:3"];
    assert_eq!(super::Bench::with(3, &flows).send(1, &fulmar_packet::build(&expired, b"")).ports(), [2]);
}
