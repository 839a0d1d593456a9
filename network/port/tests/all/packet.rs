//! A port on an interface.

use crate::network::{ADDRESSES, Network, exchange};
use crate::wire::Wire;
use fulmar_port::{Error, Frame, LONGEST_FRAME, Offload, Port, packet};
use rustix::event::{PollFd, PollFlags, poll};
use std::net::{IpAddr, Ipv6Addr};
use std::thread;

fn open(network: &Network, names: [&str; 2]) -> [Port; 2] {
    network.switch.enter();
    names.map(|name| packet::open(name).expect("it is there"))
}

#[test]
fn tcp_passes_in_segments_of_64_kib() {
    let network = Network::new("tcp");
    for to in [ADDRESSES[1].into(), IpAddr::from(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2))] {
        let mut longest = [0; 2];
        thread::scope(|scope| {
            let longest = &mut longest;
            let see = |side: usize, frame: &mut Frame<'_>| {
                longest[side] = longest[side].max(frame.bytes().len());
                assert!(frame.headroom() >= 64);
            };
            let _wire = Wire::between(scope, || open(&network, ["port1", "port2"]), see);
            exchange(&network.hosts, to);
        });
        assert!(longest.iter().all(|longest| *longest > 32_768), "{longest:?}");
    }
}

const TAG: [u8; 4] = [0x81, 0, 0, 7];

fn push_tag(frame: &mut Frame<'_>) {
    let bytes = frame.grow_front(4).expect("there is room");
    bytes.copy_within(4..16, 0);
    bytes[12..16].copy_from_slice(&TAG);
}

fn pop_tag(frame: &mut Frame<'_>) {
    assert_eq!(frame.bytes()[12..16], TAG, "it comes as it was sent");
    frame.bytes_mut().copy_within(0..12, 4);
    frame.shrink_front(4).expect("it is longer");
}

/// The kernel takes them out on the way, of long segments as well.
#[test]
fn tags_are_put_back() {
    let network = Network::new("tag");
    network
        .switch
        .ip(&["link", "add", "trunk1", "type", "veth", "peer", "name", "trunk2"])
        .expect("root may");
    for trunk in ["trunk1", "trunk2"] {
        network.switch.ip(&["link", "set", trunk, "addrgenmode", "none", "up"]).expect("root may");
    }
    let mut longest = [0; 2];
    thread::scope(|scope| {
        let [longest1, longest2] = longest.each_mut();
        let wires = [(["port1", "trunk1"], longest1), (["port2", "trunk2"], longest2)];
        let _wires = wires.map(|(names, longest)| {
            let network = &network;
            Wire::between(
                scope,
                move || open(network, names),
                move |side, frame| {
                    if side == 0 {
                        push_tag(frame);
                    } else {
                        pop_tag(frame);
                        *longest = frame.bytes().len().max(*longest);
                        assert!(frame.headroom() >= 64);
                    }
                },
            )
        });
        exchange(&network.hosts, ADDRESSES[1].into());
    });
    assert!(longest.iter().all(|longest| *longest > 32_768), "{longest:?}");
}

/// A frame of no protocol, from this number.
fn frame_of(number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![number; length];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, number, 0x88, 0xb5]);
    frame
}

fn collect(port: &mut Port, many: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < many {
        poll(&mut [PollFd::new(port, PollFlags::IN)], None).expect("it polls");
        port.receive(64, |frame| {
            if frame.bytes()[12..14] == [0x88, 0xb5] {
                all.push(frame.bytes().to_vec());
            }
        })
        .expect("it is up");
    }
    all
}

#[test]
fn frames_arrive_as_they_were_sent_and_are_counted() {
    for queues in [1, 2] {
        arrive_and_are_counted(&Network::with_queues(&format!("round{queues}"), queues));
    }
}

fn arrive_and_are_counted(network: &Network) {
    let mut here = network.switch.within(|| packet::open("port1").expect("it is there"));
    let mut there = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    let frames: Vec<_> = (14..=1514).step_by(10).map(|length| frame_of(5, length)).collect();
    for frame in &frames {
        here.send(frame, Offload::NONE);
    }
    here.flush();
    assert_eq!(collect(&mut there, frames.len()), frames);
    let sent = here.counters().sent;
    assert_eq!((sent.packets, sent.dropped, sent.errors), (frames.len() as u64, 0, 0));
    assert_eq!(sent.bytes, frames.iter().map(|frame| frame.len() as u64).sum());

    // Longer than the MTU, and not to be cut; longer than anything.
    here.send(&frame_of(5, 1600), Offload::NONE);
    here.send(&frame_of(5, LONGEST_FRAME + 1), Offload::NONE);
    here.flush();
    assert_eq!(here.counters().sent.errors, 2);

    // What is refused holds nothing else up, wherever in the ring it is.
    let mut frames = Vec::new();
    for number in 0..600 {
        if number % 7 == 0 {
            here.send(&frame_of(5, 1600), Offload::NONE);
        }
        frames.push(frame_of(5, 60 + number));
        here.send(&frames[number], Offload::NONE);
        if number % 11 == 0 {
            here.flush();
        }
    }
    here.flush();
    assert_eq!(collect(&mut there, frames.len()), frames);
    assert_eq!(here.counters().sent.errors, 2 + 600_u64.div_ceil(7));

    // It does not see what it has sent itself.
    there.send(&frame_of(6, 60), Offload::NONE);
    there.flush();
    assert_eq!(collect(&mut here, 1), [frame_of(6, 60)]);
    let link = here.link().expect("it is there");
    assert!(link.is_up && link.is_running && link.mtu == 1500);
}

/// What it says about an interface that does not get better by itself.
fn error_of(port: &mut Port) -> Error {
    loop {
        if let Err(why) = port.receive(64, |_| {}) {
            return why;
        }
    }
}

#[test]
fn an_interface_that_is_down_or_gone_is_an_error() {
    for queues in [1, 2] {
        down_or_gone_is_an_error(&Network::with_queues(&format!("down{queues}"), queues));
    }
}

fn down_or_gone_is_an_error(network: &Network) {
    let mut port = network.switch.within(|| packet::open("port1").expect("it is there"));
    network.switch.ip(&["link", "set", "port1", "down"]).expect("root may");
    poll(&mut [PollFd::new(&port, PollFlags::IN)], None).expect("it polls");
    for _ in 0..3 {
        assert!(matches!(error_of(&mut port), Error::Down { .. }));
    }
    for _ in 0..100 {
        port.send(&frame_of(5, 60), Offload::NONE);
        port.flush();
    }
    // More than wait at a time.
    (0..1000).for_each(|_| port.send(&frame_of(5, 60), Offload::NONE));
    port.flush();
    let sent = port.counters().sent;
    assert_eq!((sent.packets, sent.bytes, sent.errors), (0, 0, 1100));

    network.switch.ip(&["link", "set", "port1", "up"]).expect("root may");
    let mut there = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    there.send(&frame_of(6, 60), Offload::NONE);
    there.flush();
    assert_eq!(collect(&mut port, 1), [frame_of(6, 60)]);
    // Nothing that was refused comes later.
    let frames: Vec<_> = (0..1000).map(|number| frame_of(7, 60 + number)).collect();
    frames.iter().for_each(|frame| port.send(frame, Offload::NONE));
    port.flush();
    assert_eq!(collect(&mut there, 1000), frames);
    assert_eq!(port.counters().sent.packets, 1000);

    port.send(&frame_of(8, 60), Offload::NONE);
    network.switch.ip(&["link", "delete", "port1"]).expect("root may");
    port.flush();
    assert_eq!((port.counters().sent.packets, port.counters().sent.errors), (1000, 1101));
    for _ in 0..3 {
        assert!(matches!(error_of(&mut port), Error::Gone { .. }));
    }
    assert!(matches!(port.link(), Err(Error::Gone { .. })));
}

#[test]
fn what_is_no_ethernet_is_refused() {
    let network = Network::new("refuse");
    network.switch.enter();
    assert!(matches!(packet::open("none"), Err(Error::NoInterface { .. })));
    assert!(matches!(packet::open("a name far too long"), Err(Error::BadName { .. })));
    assert!(matches!(packet::open("lo"), Err(Error::NotEthernet { .. })));
}
