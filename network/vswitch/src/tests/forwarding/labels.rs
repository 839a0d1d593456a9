//! Tags and labels: added, taken away, and what is behind them.

use super::{Bench, through};
use fulmar_packet::{Field, FlowKey, build, ethernet, ip};

/// The front of a frame behind its addresses, tag by tag, with what comes then.
fn front(frame: &[u8], words: usize) -> Vec<u16> {
    frame[12..12 + 2 * words].chunks(2).map(|word| u16::from_be_bytes([word[0], word[1]])).collect()
}

fn udp(tags: &[u16]) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_TYPE, ethernet::IPV4.into());
    key.set(Field::IP_PROTOCOL, ip::UDP.into());
    key.set(Field::IP_TTL, 64);
    key.set(Field::L4_DESTINATION, 53);
    for (field, tag) in [Field::VLAN_TCI, Field::INNER_VLAN_TCI].into_iter().zip(tags) {
        key.set(field, (tag | ethernet::TAGGED).into());
    }
    key
}

#[test]
fn tags_are_added_set_and_taken_away() {
    let cases: [(&str, &str, &[u16], &[u16]); 8] = [
        ("", "push_vlan:0x8100,set_field:4103->vlan_vid", &[], &[0x8100, 7, 0x0800]),
        (
            "",
            "push_vlan:0x88a8,set_field:4103->vlan_vid,set_field:5->vlan_pcp",
            &[],
            &[0x88a8, 0xa007, 0x0800],
        ),
        ("", "push_vlan:0x8100", &[0x6003], &[0x8100, 0, 0x8100, 0x6003, 0x0800]),
        ("", "push_vlan:0x8100", &[3, 4], &[0x8100, 0, 0x8100, 3, 0x8100, 4, 0x0800]),
        ("dl_vlan=3", "pop_vlan", &[3], &[0x0800]),
        ("dl_vlan=3", "pop_vlan", &[3, 4], &[0x8100, 4, 0x0800]),
        ("dl_vlan=3", "set_field:4105->vlan_vid", &[0x6003], &[0x8100, 0x6009, 0x0800]),
        ("dl_vlan=3", "load:9->OXM_OF_VLAN_VID[0..3]", &[0x6003], &[0x8100, 0x6009, 0x0800]),
    ];
    for (asked, actions, before, after) in cases {
        let frame = through(actions, asked, &udp(before));
        assert_eq!(front(&frame, after.len()), after, "{asked} {actions}");
    }
}

#[test]
fn what_is_behind_three_tags_is_set_and_all_of_them_can_be_taken_away() {
    let tagged = through("push_vlan:0x8100,set_field:10.0.0.1->ip_dst", "ip", &udp(&[3, 4]));
    let mut expected = udp(&[]);
    expected.set(Field::IPV4_DESTINATION, 0x0a00_0001);
    assert_eq!(tagged[24..], build(&expected, b"content")[12..]);
    let flows = [
        "ip actions=push_vlan:0x8100,resubmit(,1)",
        "table=1,vlan_vid=0x1000/0x1000 actions=pop_vlan,resubmit(,1)",
        "table=1,priority=1,udp,vlan_tci=0,udp_dst=53 actions=output:2",
    ];
    let sent = Bench::with(2, &flows).send(1, &build(&udp(&[3, 4]), b""));
    assert_eq!(sent.frames, [(2, build(&udp(&[]), b""))]);
}

#[test]
fn labels_are_added_set_and_taken_away() {
    let label =
        |frame: &[u8], at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"));
    // Of the packet, the hops; and the last of all labels is marked.
    let frame = through("push_mpls:0x8847", "ip", &udp(&[]));
    assert_eq!((front(&frame, 1)[0], label(&frame, 14)), (0x8847, 0x0000_0140));
    let actions = "push_mpls:0x8847,set_field:99->mpls_label,set_field:5->mpls_tc,dec_mpls_ttl";
    assert_eq!(label(&through(actions, "ip", &udp(&[])), 14), 99 << 12 | 5 << 9 | 1 << 8 | 63);
    let frame = through("push_mpls:0x8847,push_mpls:0x8848,set_mpls_ttl:3", "ip", &udp(&[5]));
    assert_eq!(front(&frame, 3), [0x8100, 5, 0x8848]);
    assert_eq!((label(&frame, 18), label(&frame, 22)), (3, 0x0000_0140));
}

#[test]
fn what_is_behind_a_label_is_looked_at_again() {
    let flows = [
        "ip actions=push_mpls:0x8847,resubmit(,1)",
        "table=1,mpls actions=pop_mpls:0x0800,resubmit(,2),output:3",
        "table=2,udp,udp_dst=53 actions=set_field:54->udp_dst,output:2",
    ];
    let mut expected = udp(&[]);
    expected.set(Field::L4_DESTINATION, 54);
    let expected = build(&expected, b"");
    let sent = Bench::with(3, &flows).send(1, &build(&udp(&[]), b""));
    assert_eq!(sent.frames, [(2, expected.clone()), (3, expected)]);
}
