//! NORMAL: as an ordinary switch, with stations and VLANs.

use super::super::{Bench, Sent, between};
use crate::{PortInfo, Vlans};
use fulmar_openflow::action::Output;
use fulmar_openflow::{Action, PortNumber};
use fulmar_port::{Frame, Offload};
use std::time::Duration;

/// Ports from 1 on with these VLANs.
fn bench(vlans: &[Vlans]) -> Bench {
    let bench = Bench::with(u32::try_from(vlans.len()).expect("few"), &["actions=NORMAL"]);
    for (number, vlans) in (1..).zip(vlans) {
        let mut port = bench.switch.port(number).expect("there is such a port");
        port.vlans = vlans.clone();
        bench.switch.put_port(number, PortInfo { ..port }, bench.now);
    }
    bench
}

#[test]
fn stations_are_learned_move_and_are_forgotten() {
    let mut bench = bench(&[Vlans::ALL, Vlans::ALL, Vlans::ALL]);
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2, 3], "it is not known where 2 is");
    assert_eq!(bench.send(2, &between(2, 1, None)).ports(), [1]);
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2]);
    assert_eq!(bench.send(2, &between(3, 2, None)).ports(), [0u32; 0], "it is where it came from");
    assert_eq!(bench.send(3, &between(2, 1, None)).ports(), [1], "2 has moved");
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [3]);
    bench.credit();
    bench.now = bench.now + Duration::from_secs(299);
    bench.send(1, &between(1, 2, None));
    bench.credit();
    bench.now = bench.now + Duration::from_secs(1);
    bench.switch.expire(bench.now);
    let known: Vec<u64> =
        bench.switch.stations(bench.now).iter().map(|known| known.0.address & 0xff).collect();
    assert_eq!(known, [1], "of the others nothing was heard for long");
    let (_, left) = bench.switch.remove_port(1).expect("it was there");
    assert_eq!(left.iter().map(|station| station.address & 0xff).collect::<Vec<_>>(), [1]);
    assert_eq!(bench.switch.stations(bench.now), []);
    bench.send(2, &between(3, 2, None));
    let [known] = bench.switch.stations(bench.now)[..] else { panic!("3 is known") };
    bench.switch.forget(&[known.0]);
    assert_eq!(bench.switch.stations(bench.now), []);
}

#[test]
fn a_station_whose_frames_come_back_is_noticed() {
    let mut bench = bench(&[Vlans::ALL, Vlans::ALL]);
    let hear = |bench: &mut Bench, port| drop(bench.send(port, &between(1, 9, None)));
    for turn in 0..10 {
        hear(&mut bench, 1 + turn % 2);
    }
    // One that is carried from port to port, once in two seconds.
    for turn in 0..20 {
        bench.now = bench.now + Duration::from_secs(2);
        hear(&mut bench, 1 + turn % 2);
    }
    assert_eq!(bench.switch.take_flapping(), []);
    for turn in 0..10 {
        hear(&mut bench, 1 + turn % 2);
    }
    let [flapping] = bench.switch.take_flapping()[..] else { panic!("it is noticed, once") };
    assert_eq!((flapping.station.address & 0xff, flapping.ports), (1, [2, 1]));
    assert_eq!(bench.switch.take_flapping(), []);
}

#[test]
fn frames_for_bridges_go_nowhere() {
    let mut bench = bench(&[Vlans::ALL, Vlans::ALL]);
    let mut reserved = between(1, 2, None);
    reserved[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0x0e]);
    assert_eq!(bench.send(1, &reserved).ports(), [0u32; 0]);
}

#[test]
fn frames_have_the_tags_of_the_port_where_they_leave() {
    let trunk = |native, is_native_tagged, allowed: &[u16]| Vlans::Trunk {
        native,
        is_native_tagged,
        allowed: allowed.to_vec(),
    };
    // At port 1 comes in what port 2 is to send.
    let cases = [
        (Vlans::Access(5), None, Vlans::Access(5), Some(None)),
        (Vlans::Access(5), None, Vlans::Access(6), None),
        (Vlans::Access(5), Some(6), Vlans::ALL, None),
        (Vlans::Access(5), None, Vlans::ALL, Some(Some(5))),
        (Vlans::Access(5), Some(0xa000), Vlans::ALL, Some(Some(5))),
        (Vlans::ALL, Some(5), Vlans::Access(5), Some(None)),
        (Vlans::ALL, Some(0xa005), Vlans::ALL, Some(Some(0xa005))),
        (Vlans::ALL, Some(5), trunk(0, false, &[6]), None),
        (Vlans::ALL, Some(6), trunk(0, false, &[6]), Some(Some(6))),
        (trunk(5, false, &[]), None, Vlans::ALL, Some(Some(5))),
        (Vlans::ALL, Some(5), trunk(5, false, &[]), Some(None)),
        (Vlans::ALL, Some(5), trunk(5, true, &[]), Some(Some(5))),
        (Vlans::ALL, Some(0), Vlans::ALL, Some(None)),
        (Vlans::ALL, Some(0xa000), Vlans::ALL, Some(Some(0xa000))),
    ];
    for (from, tag, to, expected) in cases {
        let context = format!("{from:?} {tag:x?} {to:?}");
        let sent = bench(&[from, to]).send(1, &between(1, 2, tag));
        let expected: Vec<_> = expected.into_iter().map(|tag| (2, between(1, 2, tag))).collect();
        assert_eq!(sent.frames, expected, "{context}");
    }
}

#[test]
fn a_station_is_not_where_its_vlan_no_longer_is() {
    let mut bench = bench(&[Vlans::Access(5), Vlans::Access(5), Vlans::Access(5)]);
    bench.send(2, &between(2, 1, None));
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2]);
    bench.switch.change_port(2, |port| port.vlans = Vlans::Access(6));
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [3]);
}

#[test]
fn what_a_controller_sends_teaches_no_place() {
    let mut bench = bench(&[Vlans::ALL, Vlans::ALL, Vlans::ALL]);
    bench.send(2, &between(2, 1, None));
    let (mut frame, mut sent) = (vec![0; 64], Sent::default());
    frame.extend(between(2, 9, None));
    let actions = [Action::Output(Output { port: PortNumber::NORMAL, max_length: 0 })];
    let packet = Frame::new(&mut frame, 64, Offload::NONE);
    bench.forwarders[0].carry_out(bench.now, PortNumber::CONTROLLER.0, &actions, packet, &mut sent);
    assert_eq!(sent.ports(), [1, 2, 3]);
    assert_eq!(bench.send(1, &between(1, 2, None)).ports(), [2], "it is where it was heard");
    // As from a port that is not there, or is gone.
    let packet = Frame::new(&mut frame, 64, Offload::NONE);
    let mut sent = Sent::default();
    bench.forwarders[0].carry_out(bench.now, 9, &actions, packet, &mut sent);
    assert_eq!(sent.ports(), [0u32; 0]);
}

#[test]
fn one_port_that_makes_up_stations_displaces_none_of_others() {
    let mut bench = bench(&[Vlans::ALL, Vlans::ALL]);
    bench.send(2, &between(2, 1, None));
    for made_up in 0..9000u32 {
        bench.now = bench.now + Duration::from_millis(1);
        let mut frame = between(3, 1, None);
        frame[7..11].copy_from_slice(&made_up.to_be_bytes());
        bench.send(1, &frame);
    }
    let known = bench.switch.stations(bench.now);
    assert!(known.len() <= 8192, "{}", known.len());
    assert!(known.iter().any(|(_, port, _)| *port == 2));
}
