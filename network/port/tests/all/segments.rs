//! What software makes of a frame that is to be cut, and what the kernel makes of it.

use crate::network::Network;
use fulmar_node::Random;
use fulmar_packet::checksum::Sum;
use fulmar_packet::{Field, FlowKey, build, ethernet, ip};
use fulmar_port::offload::{Checksum, Kind, Segmentation, finish};
use fulmar_port::{Error, Offload, Port, packet};
use rustix::event::{PollFd, PollFlags, poll};

/// A frame with random payload that is to be cut, as a kernel would leave it.
pub(crate) fn open_frame(
    random: &mut Random,
    kind: Kind,
    is_v6: bool,
    is_tagged: bool,
    payload: usize,
    size: u16,
) -> (Vec<u8>, Offload) {
    let mut key = FlowKey::default();
    key.set(Field::ETH_DESTINATION, 0x0200_0000_0099);
    key.set(Field::ETH_SOURCE, 0x0200_0000_0098);
    if is_tagged {
        key.set(Field::VLAN_TCI, u128::from(ethernet::TAGGED) | 7);
    }
    key.set(Field::ETH_TYPE, if is_v6 { ethernet::IPV6 } else { ethernet::IPV4 }.into());
    let (source, destination) = match is_v6 {
        true => (Field::IPV6_SOURCE, Field::IPV6_DESTINATION),
        false => (Field::IPV4_SOURCE, Field::IPV4_DESTINATION),
    };
    key.set(source, 0xfd09_0000_0a09_0063 & source.ones());
    key.set(destination, 0xfd09_0000_0a09_0062 & destination.ones());
    key.set(Field::IP_TTL, 64);
    let protocol = if kind == Kind::Udp { ip::UDP } else { ip::TCP };
    key.set(Field::IP_PROTOCOL, protocol.into());
    key.set(Field::L4_SOURCE, 5);
    key.set(Field::L4_DESTINATION, 6);
    // FIN, PSH, ACK and CWR.
    key.set(Field::TCP_FLAGS, 0x99);
    let payload: Vec<u8> = (0..payload).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect();
    let mut frame = build(&key, &payload);

    let network = ethernet::HEADER + if is_tagged { ethernet::TAG } else { 0 };
    let transport = network + if is_v6 { 40 } else { 20 };
    if !is_v6 {
        frame[network + 4..network + 6].copy_from_slice(&[0xff, 0xfe]);
        frame[network + 10..network + 12].fill(0);
        let sum = Sum::default().bytes(&frame[network..transport]).finish();
        frame[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let (header, offset) = if kind == Kind::Udp { (8, 6) } else { (20, 16) };
    if kind != Kind::Udp {
        frame[transport + 4..transport + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0x00]);
    }
    let addresses = if is_v6 { network + 8..network + 40 } else { network + 12..network + 20 };
    let sum = Sum::default().bytes(&frame[addresses]).number(protocol.into());
    let sum = !sum.number(u32::try_from(frame.len() - transport).expect("short")).finish();
    frame[transport + offset..transport + offset + 2].copy_from_slice(&sum.to_be_bytes());
    let number = |number: usize| u16::try_from(number).expect("short");
    let checksum = Some(Checksum { start: number(transport), offset: number(offset) });
    let segmentation =
        Some(Segmentation { kind, ecn: kind != Kind::Udp, size, header: number(transport + header) });
    (frame, Offload { checksum, segmentation })
}

pub(crate) fn finished(frame: &[u8], offload: Offload) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    finish(frame, offload, &mut Vec::new(), |segment| all.push(segment.to_vec())).expect("it is sound");
    all
}

/// Frames of the test that come, until there are so many.
pub(crate) fn collect(port: &mut Port, many: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < many {
        poll(&mut [PollFd::new(port, PollFlags::IN)], None).expect("it polls");
        port.receive(64, |frame| {
            if frame.bytes()[..12] == [2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98] {
                all.extend(finished(frame.bytes(), frame.offload));
            }
        })
        .expect("it is up");
    }
    all
}

#[test]
fn software_cuts_as_the_kernel_does() {
    let network = Network::new("cut");
    // So that the interface gets nothing but single segments.
    network.switch.ip(&["link", "set", "port1", "gso_max_segs", "1"]).expect("root may");
    let mut from = network.switch.within(|| packet::open("port1").expect("it is there"));
    let mut to = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    let mut random = Random::new(3);
    for (kind, is_v6) in [(Kind::TcpV4, false), (Kind::TcpV6, true), (Kind::Udp, false), (Kind::Udp, true)] {
        for is_tagged in [false, true] {
            for (payload, size) in [(40_000, 1400), (2_801, 1400), (2_800, 1400), (1_401, 1400), (9_000, 141)]
            {
                let (frame, offload) = open_frame(&mut random, kind, is_v6, is_tagged, payload, size);
                let expected = finished(&frame, offload);
                assert_eq!(expected.len(), payload.div_ceil(size.into()));
                from.send(&frame, offload);
                from.flush();
                let came = collect(&mut to, expected.len());
                for (number, (came, expected)) in came.iter().zip(&expected).enumerate() {
                    assert!(came == expected, "{offload:?}, segment {number}:\n{came:02x?}\n{expected:02x?}");
                }
            }
        }
    }
    assert_eq!(from.counters().sent.errors, 0);
}

#[test]
fn long_frames_that_came_before_a_link_went_down_are_not_lost() {
    let network = Network::new("late");
    let mut port = network.switch.within(|| packet::open("port1").expect("it is there"));
    let mut there = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    let mut random = Random::new(6);
    let frames: Vec<_> = (1..=5)
        .map(|number| open_frame(&mut random, Kind::TcpV4, false, number % 2 == 0, 10_000 * number, 1400))
        .collect();
    for (frame, offload) in &frames {
        there.send(frame, *offload);
    }
    network.switch.ip(&["link", "set", "port1", "down"]).expect("root may");
    let mut came = Vec::new();
    let error = loop {
        let received = port.receive(2, |frame| {
            if frame.bytes()[5] == 0x99 {
                came.push((frame.bytes().to_vec(), frame.offload.checksum));
            }
        });
        if let Err(why) = received {
            break why;
        }
    };
    assert!(matches!(error, Error::Down { .. }));
    let sent: Vec<_> = frames.into_iter().map(|(frame, offload)| (frame, offload.checksum)).collect();
    assert!(came == sent, "{} of {} came", came.len(), sent.len());
}

#[test]
fn segments_carry_all_of_it_and_sum_up() {
    let mut random = Random::new(4);
    for (kind, is_v6) in [(Kind::TcpV4, false), (Kind::TcpV6, true), (Kind::Udp, false), (Kind::Udp, true)] {
        let (frame, offload) = open_frame(&mut random, kind, is_v6, true, 10_001, 1_000);
        let segmentation = offload.segmentation.expect("it is to be cut");
        let start = usize::from(offload.checksum.expect("it is open").start);
        let mut payload = Vec::new();
        for segment in finished(&frame, offload) {
            let addresses = if is_v6 { 26..58 } else { 30..38 };
            let protocol = if kind == Kind::Udp { ip::UDP } else { ip::TCP };
            let length = u32::try_from(segment.len() - start).expect("short");
            let sum = Sum::default().bytes(&segment[addresses]).number(protocol.into()).number(length);
            assert_eq!(sum.bytes(&segment[start..]).finish(), 0);
            if !is_v6 {
                assert_eq!(Sum::default().bytes(&segment[18..38]).finish(), 0);
            }
            payload.extend_from_slice(&segment[usize::from(segmentation.header)..]);
        }
        assert!(payload == frame[usize::from(segmentation.header)..]);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut random = Random::new(5);
    let (frame, good) = open_frame(&mut random, Kind::TcpV4, false, false, 3_000, 1_000);
    let Offload { checksum: Some(checksum), segmentation: Some(segmentation) } = good else {
        unreachable!("it was made so")
    };
    let of = |checksum, segmentation| Offload { checksum: Some(checksum), segmentation };
    for offload in [
        of(Checksum { start: 65_535, offset: 0 }, None),
        of(Checksum { start: 34, offset: 65_535 }, None),
        of(Checksum { start: 10, offset: 16 }, Some(segmentation)),
        of(Checksum { start: 65_535, offset: 16 }, Some(segmentation)),
        of(checksum, Some(Segmentation { size: 0, ..segmentation })),
        of(checksum, Some(Segmentation { kind: Kind::TcpV6, ..segmentation })),
    ] {
        let mut count = 0;
        let why = finish(&frame, offload, &mut Vec::new(), |_| count += 1).expect_err("it makes no sense");
        assert_eq!((why.length, why.offload, count), (frame.len(), offload, 0));
    }
    for length in 0..frame.len() {
        // Whatever is cut off, nothing panics.
        let _ = finish(&frame[..length], good, &mut Vec::new(), |_| {});
    }
    for _ in 0..20_000 {
        let mut frame = frame.clone();
        let at = usize::try_from(random.below(80)).expect("few");
        frame[at] = u8::try_from(random.below(256)).expect("a byte");
        let mut byte = || u16::try_from(random.below(300)).expect("few");
        let checksum = Some(Checksum { start: byte(), offset: byte() });
        let segmentation = Some(Segmentation { size: byte(), ..segmentation });
        let _ = finish(&frame, Offload { checksum, segmentation }, &mut Vec::new(), |_| {});
    }
}
