//! By which way frames go out.

use crate::network::Network;
use crate::segments::{collect, finished, open_frame};
use fulmar_namespaces::Namespace;
use fulmar_node::Random;
use fulmar_port::offload::{Checksum, Kind};
use fulmar_port::{Offload, Port, packet};
use rustix::event::{PollFd, PollFlags, poll};

fn open(host: &Namespace, name: &str) -> Port {
    host.within(|| packet::open(name).expect("it is there"))
}

/// A TCP segment whose checksum is open.
fn open_segment(random: &mut Random, payload: usize) -> (Vec<u8>, Offload) {
    let (frame, offload) = open_frame(random, Kind::TcpV4, false, false, payload, 1000);
    (frame, Offload { segmentation: None, ..offload })
}

/// The next frame of [`open_frame`] with what is left to be done to it.
fn next(port: &mut Port) -> (Vec<u8>, Offload) {
    let mut came = None;
    while came.is_none() {
        poll(&mut [PollFd::new(port, PollFlags::IN)], None).expect("it polls");
        port.receive(1, |frame| {
            came = (frame.bytes()[5] == 0x99).then(|| (frame.bytes().to_vec(), frame.offload));
        })
        .expect("it is up");
    }
    came.expect("the loop waited for it")
}

#[test]
fn frames_of_all_kinds_stay_in_order() {
    for queues in [1, 2] {
        let network = Network::with_queues(&format!("order{queues}"), queues);
        let (mut from, mut to) = (open(&network.switch, "port1"), open(&network.hosts[0], "eth0"));
        let mut random = Random::new(7);
        let (mut expected, mut came) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            for _ in 0..random.below(9) {
                let payload = usize::try_from(1 + random.below(1400)).expect("short");
                let (frame, offload) = match random.below(4) {
                    0 => {
                        let (frame, offload) = open_segment(&mut random, payload);
                        (finished(&frame, offload).remove(0), Offload::NONE)
                    }
                    1 | 2 => open_segment(&mut random, payload),
                    _ => open_frame(&mut random, Kind::TcpV4, false, false, 10 * payload, 1000),
                };
                from.send(&frame, offload);
                expected.extend(finished(&frame, offload));
            }
            from.flush();
            came.extend(collect(&mut to, expected.len() - came.len()));
        }
        assert!(came == expected, "by {queues} queues");
        assert_eq!((from.counters().sent.errors, from.counters().sent.dropped), (0, 0));
    }
}

/// Nothing tells the kernel of an open checksum when a frame goes by the faster way.
#[test]
fn checksums_are_completed_where_an_interface_has_one_queue() {
    for queues in [1, 2] {
        let network = Network::with_queues(&format!("sum{queues}"), queues);
        let (mut from, mut to) = (open(&network.switch, "port1"), open(&network.hosts[0], "eth0"));
        let (frame, offload) = open_segment(&mut Random::new(8), 100);
        from.send(&frame, offload);
        from.flush();
        let complete = (finished(&frame, offload).remove(0), Offload::NONE);
        assert_eq!(next(&mut to), if queues == 1 { complete } else { (frame.clone(), offload) });

        // Where the checksum of SCTP would be: it is another one, and left to whoever knows it.
        let offload = Offload { checksum: Some(Checksum { start: 34, offset: 8 }), segmentation: None };
        from.send(&frame, offload);
        from.flush();
        assert_eq!(next(&mut to), (frame, offload));
    }
}

#[test]
fn two_ports_on_an_interface_send_both() {
    let network = Network::new("both");
    let mut ports = [1, 2].map(|_| open(&network.switch, "port1"));
    let mut to = open(&network.hosts[0], "eth0");
    for port in &mut ports {
        let (frame, offload) = open_segment(&mut Random::new(9), 100);
        port.send(&frame, offload);
        port.flush();
        assert_eq!(collect(&mut to, 1), finished(&frame, offload));
    }
}

#[test]
fn what_is_longer_than_the_mtu_is_refused() {
    let network = Network::new("mtu");
    let (mut from, mut to) = (open(&network.switch, "port1"), open(&network.hosts[0], "eth0"));
    let mut random = Random::new(10);
    let mut sends = |mtu: &str, payload: usize, errors: u64| {
        network.switch.ip(&["link", "set", "port1", "mtu", mtu]).expect("root may");
        network.hosts[0].ip(&["link", "set", "eth0", "mtu", mtu]).expect("root may");
        assert_eq!(from.link().expect("it is there").mtu.to_string(), mtu);
        let (frame, offload) = open_segment(&mut random, payload);
        let before = from.counters().sent;
        from.send(&frame, offload);
        from.flush();
        let sent = from.counters().sent;
        assert_eq!((sent.packets - before.packets, sent.errors - before.errors), (1 - errors, errors));
        if errors == 0 {
            assert_eq!(collect(&mut to, 1), finished(&frame, offload));
        }
    };
    sends("1500", 1460, 0);
    sends("1500", 1461, 1);
    sends("1000", 961, 1);
    sends("1000", 960, 0);
    sends("9000", 8960, 0);
    sends("9000", 2000, 0);
    sends("9000", 8961, 1);
}

/// The kernel says so of each, and not always that it took it.
#[test]
fn what_an_interface_drops_is_counted_and_does_not_come_later() {
    let network = Network::new("drop");
    let mut from = open(&network.switch, "port1");
    let frames: Vec<_> = (1..=300).map(|payload| open_segment(&mut Random::new(payload), 100)).collect();
    let send_all = |from: &mut Port| {
        frames.iter().for_each(|(frame, offload)| from.send(frame, *offload));
        from.flush();
        let sent = from.counters().sent;
        (sent.packets, sent.dropped, sent.errors)
    };
    network.hosts[0].ip(&["link", "set", "eth0", "down"]).expect("root may");
    assert_eq!(send_all(&mut from), (0, 300, 0));
    network.switch.ip(&["link", "set", "port1", "down"]).expect("root may");
    assert_eq!(send_all(&mut from), (0, 300, 300));
    network.switch.ip(&["link", "set", "port1", "up"]).expect("root may");
    network.hosts[0].ip(&["link", "set", "eth0", "up"]).expect("root may");
    let mut to = open(&network.hosts[0], "eth0");
    assert_eq!(send_all(&mut from), (300, 300, 300));
    let complete: Vec<_> = frames.iter().flat_map(|(frame, offload)| finished(frame, *offload)).collect();
    assert!(collect(&mut to, 300) == complete);
}
