//! What controllers of OpenFlow 1.0 rely on: packets that no flow is for come to them, ports are not flooded, tags are there once set.

use super::{Bench, tcp, through};
use fulmar_openflow::packet_in::PacketInReason;
use fulmar_openflow::ports::{PortConfig, PortFeatures, PortMod};
use fulmar_openflow::{Body, PortNumber};
use fulmar_packet::{Field, FlowKey, ethernet};

#[test]
fn what_no_flow_is_for_is_told_to_those_who_want_it() {
    let mut bench =
        Bench::with(2, &["tcp,tp_dst=80 actions=resubmit(,1)", "tcp,tp_dst=81 actions=goto_table:2"]);
    let told = |bench: &mut Bench, port: u16| -> Vec<(u8, PacketInReason, u64)> {
        let notices = bench.send(1, &tcp(1, 2, 5, port)).notices;
        notices.into_iter().map(|(notice, _)| (notice.table, notice.reason, notice.cookie)).collect()
    };
    assert_eq!(told(&mut bench, 90), []);
    bench.switch.tell_misses(true);
    assert_eq!(told(&mut bench, 90), [(0, PacketInReason::NoMatch, u64::MAX)]);
    assert_eq!(told(&mut bench, 90).len(), 1, "as it is remembered");
    assert_eq!(told(&mut bench, 80), [], "a flow has looked elsewhere");
    assert_eq!(told(&mut bench, 81), [(2, PacketInReason::NoMatch, u64::MAX)]);
    bench.add("priority=0 actions=output:2").expect("it is sound");
    assert_eq!(told(&mut bench, 90), []);
    bench.add("priority=0,table=2 actions=drop").expect("it is sound");
    assert_eq!(told(&mut bench, 81), []);
    bench.switch.tell_misses(false);
    assert_eq!(told(&mut bench, 80), []);
}

#[test]
fn a_port_that_is_not_flooded_is_still_one_of_all() {
    for (flow, ports) in [
        ("actions=FLOOD", vec![3]),
        ("actions=NORMAL", vec![3]),
        ("actions=ALL", vec![2, 3]),
        ("actions=output:2", vec![2]),
    ] {
        let mut bench = Bench::with(3, &[flow]);
        let not_flooded = PortMod {
            port: PortNumber(2),
            address: [2, 0, 0, 0, 0, 2],
            config: PortConfig::NO_FLOOD,
            mask: PortConfig::NO_FLOOD,
            advertise: PortFeatures::NONE,
        };
        bench.request(Body::PortMod(not_flooded)).expect("there is such a port");
        assert_eq!(bench.send(1, &tcp(1, 2, 5, 80)).ports(), ports, "{flow}");
    }
}

#[test]
fn a_tag_that_is_set_is_there() {
    let tagged = |tag: u16| {
        let mut key = FlowKey::EMPTY;
        key.set(Field::ETH_SOURCE, 1);
        key.set(Field::ETH_TYPE, 0x1234);
        if tag != 0 {
            key.set(Field::VLAN_TPID, ethernet::VLAN.into());
            key.set(Field::VLAN_TCI, tag.into());
        }
        key
    };
    // `mod_vlan_vid:100` and `mod_vlan_pcp:3`, in the words of later versions.
    let (number, priority) = ("load:0x1064->NXM_OF_VLAN_TCI[0..12]", "load:0x7->NXM_OF_VLAN_TCI[12..15]");
    for (before, actions, after) in [
        (0, number, 0x1064),
        (0, priority, 0x7000),
        (0x5005, number, 0x5064),
        (0x5005, priority, 0x7005),
        (0, &format!("{number},{priority}"), 0x7064),
    ] {
        let expected = fulmar_packet::build(&tagged(after), b"content");
        assert_eq!(through(actions, "", &tagged(before)), expected, "{before:#x} {actions}");
    }
}
