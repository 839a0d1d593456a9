//! Mirrors get what they are to have: once, as it is where it comes in or leaves, and with the tag of where it goes.

use super::{Bench, between, tcp};
use crate::{Mirror, MirrorOutput, Vlans};
use fulmar_packet::{Field, Match};

/// One that copies to port 5.
fn mirror(arriving: &[u32], leaving: &[u32]) -> Mirror {
    Mirror {
        id: 1,
        name: "tested".into(),
        arriving: arriving.iter().copied().collect(),
        leaving: leaving.iter().copied().collect(),
        vlans: [].into(),
        filter: Match::ANY,
        output: MirrorOutput::Port(5),
        length: None,
    }
}

fn ordinary(mirror: Mirror) -> Bench {
    let bench = Bench::with(5, &["actions=NORMAL"]);
    bench.switch.set_mirrors(vec![mirror]);
    bench
}

fn vlans(bench: &Bench, port: u32, vlans: Vlans) {
    bench.switch.change_port(port, |info| info.vlans = vlans);
}

#[test]
fn what_comes_in_and_what_leaves_is_copied() {
    let mut bench = ordinary(mirror(&[1], &[]));
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2, 3, 4, 5]);
    assert_eq!(bench.send(2, &between(2, 1, None)).ports(), [1], "it does not come in there");
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2, 5]);
    bench.switch.set_mirrors(vec![mirror(&[], &[1])]);
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2]);
    assert_eq!(bench.send(2, &between(2, 1, None)).ports(), [1, 5]);
    bench.switch.set_mirrors(Vec::new());
    assert_eq!(
        bench.send(2, &between(2, 9, None)).ports(),
        [1, 3, 4, 5],
        "its port is one like others again"
    );
}

#[test]
fn a_packet_is_copied_once() {
    let mut bench = ordinary(mirror(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]));
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2, 3, 4, 5]);
    let other = Mirror { id: 2, output: MirrorOutput::Port(4), ..mirror(&[1], &[5]) };
    bench.switch.set_mirrors(vec![mirror(&[1], &[]), other]);
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2, 3, 4, 5], "two mirrors, two copies");
    bench.switch.set_mirrors(vec![mirror(&[1], &[]), Mirror { id: 2, ..mirror(&[], &[2, 3]) }]);
    assert_eq!(
        bench.send(1, &between(1, 2, None)).ports(),
        [2, 3, 4, 5],
        "two mirrors to one place, one copy"
    );
    assert_eq!(bench.send(4, &between(4, 2, None)).ports(), [1, 2, 3, 5]);
}

#[test]
fn the_port_of_a_mirror_is_for_copies_alone() {
    let mut bench = ordinary(mirror(&[1], &[]));
    assert_eq!(bench.send(5, &between(5, 1, None)).ports(), [0u32; 0]);
    assert_eq!(bench.switch.stations(bench.now), []);
    assert_eq!(bench.send(2, &between(2, 5, None)).ports(), [1, 3, 4]);
    bench.add("priority=40000,in_port=5 actions=output:1").expect("it is sound");
    assert_eq!(bench.send(5, &between(5, 1, None)).ports(), [0u32; 0], "whatever flows say");
    // What they send there counts.
    bench.add("priority=40000,in_port=2 actions=output:5").expect("it is sound");
    assert_eq!(bench.send(2, &between(2, 5, None)).ports(), [5]);
}

#[test]
fn a_station_that_was_where_copies_go_is_not_known_any_more() {
    let mut bench = Bench::with(5, &["actions=NORMAL"]);
    bench.send(5, &between(5, 1, None));
    assert_eq!(bench.send(2, &between(2, 5, None)).ports(), [5]);
    bench.switch.set_mirrors(vec![mirror(&[1], &[])]);
    assert_eq!(bench.send(2, &between(2, 5, None)).ports(), [1, 3, 4]);
}

#[test]
fn flows_that_drop_are_no_reason_not_to_copy() {
    let mut bench = Bench::with(5, &["in_port=1 actions=drop", "in_port=2,ip actions=dec_ttl,output:1"]);
    bench.switch.set_mirrors(vec![mirror(&[1], &[1])]);
    let sent = tcp(1, 2, 3, 4);
    assert_eq!(bench.send(1, &sent).frames, [(5, sent.clone())]);
    let left = bench.send(2, &sent).frames;
    assert_eq!(left.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [5, 1]);
    assert!(left[0].1 == left[1].1 && left[0].1 != sent, "as it leaves");
}

#[test]
fn copies_are_of_some_vlans_and_some_packets() {
    let mut bench = ordinary(Mirror { vlans: [7].into(), ..mirror(&[1, 2], &[]) });
    vlans(&bench, 2, Vlans::Access(7));
    assert_eq!(bench.send(1, &between(1, 9, Some(7))).ports(), [2, 3, 4, 5]);
    assert_eq!(bench.send(1, &between(1, 9, Some(8))).ports(), [3, 4]);
    assert_eq!(bench.send(2, &between(2, 9, None)).ports(), [1, 3, 4, 5], "by its port it is of VLAN 7");
    assert_eq!(
        bench.send(2, &between(2, 9, Some(7))).ports(),
        [0u32; 0],
        "with a tag it has no business there"
    );
    let filter = Match::ANY.with(Field::ETH_DESTINATION, 0x0200_0000_0003);
    bench.switch.set_mirrors(vec![Mirror { filter, ..mirror(&[1], &[]) }]);
    assert_eq!(bench.send(1, &between(1, 3, None)).ports(), [3, 4, 5]);
    assert_eq!(bench.send(1, &between(1, 4, None)).ports(), [3, 4]);
}

#[test]
fn copies_have_the_tag_of_where_they_go() {
    let mut bench = ordinary(mirror(&[1], &[]));
    vlans(&bench, 1, Vlans::Access(7));
    let copy = |bench: &mut Bench, port| {
        let sent = bench.send(1, &between(1, 9, None)).frames;
        sent.into_iter().filter(|(to, _)| *to == port).map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    assert_eq!(copy(&mut bench, 5), [between(1, 9, Some(7))]);
    vlans(&bench, 5, Vlans::Access(3));
    assert_eq!(copy(&mut bench, 5), [between(1, 9, None)]);
    // In a VLAN of their own they go to all who are there.
    bench.switch.set_mirrors(vec![Mirror { output: MirrorOutput::Vlan(9), ..mirror(&[1], &[]) }]);
    vlans(&bench, 4, Vlans::Access(9));
    assert_eq!(copy(&mut bench, 2), [between(1, 9, Some(9)), between(1, 9, Some(7))]);
    assert_eq!(copy(&mut bench, 4), [between(1, 9, None)]);
    assert_eq!(
        bench.send(1, &between(1, 9, Some(9))).ports(),
        [],
        "an access port takes no tag, and what is there already is not doubled"
    );
}

#[test]
fn copies_can_be_short_and_are_counted() {
    let mut bench = ordinary(Mirror { length: Some(20), ..mirror(&[1], &[]) });
    let sent = between(1, 2, None);
    for _ in 0..3 {
        let copies = bench.send(1, &sent).frames.into_iter().filter(|(port, _)| *port == 5);
        assert_eq!(copies.collect::<Vec<_>>(), [(5, sent[..20].to_vec())]);
    }
    bench.credit();
    let counted =
        |bench: &Bench| bench.switch.mirrored().iter().map(|(_, traffic)| traffic.packets).sum::<u64>();
    assert_eq!(counted(&bench), 3);
    bench.switch.set_mirrors(vec![mirror(&[1], &[])]);
    assert_eq!(counted(&bench), 3, "it is the same");
}

/// Each copy would be mirrored into the next VLAN.
#[test]
fn mirrors_of_copies_come_to_an_end() {
    let mut bench = Bench::with(2, &["actions=output:2"]);
    let into = |vlan: u16| Mirror { id: vlan.into(), output: MirrorOutput::Vlan(vlan), ..mirror(&[], &[2]) };
    bench.switch.set_mirrors((1..4_000).map(into).collect());
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [0u32; 0], "it is dropped");
    bench.switch.set_mirrors((1..20).map(into).collect());
    let ports = bench.send(1, &between(1, 2, None)).ports();
    assert_eq!(ports.iter().filter(|port| **port == 2).count(), 20);
}
