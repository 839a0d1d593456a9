//! An interface as several ports, for several threads.

use crate::network::{ADDRESSES, Network};
use fulmar_namespaces::Namespace;
use fulmar_packet::{Field, FlowKey, build, ethernet, ip};
use fulmar_port::{Offload, Port, packet};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const TWO: NonZeroUsize = NonZeroUsize::new(2).expect("it is not 0");
/// So long a flow keeps its port.
const SILENCE: Duration = Duration::from_millis(10);

fn lanes(host: &Namespace, name: &str) -> [Port; 2] {
    let lanes = host.within(|| packet::open_lanes(name, TWO).expect("it is there"));
    lanes.try_into().expect("as many as were asked for")
}

/// The thread that calls it runs on this processor alone.
fn run_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).expect("there are two");
}

/// From this UDP port, with a number.
fn datagram(flow: u16, number: u32) -> Vec<u8> {
    let mut key = FlowKey::EMPTY;
    for (field, value) in [
        (Field::ETH_DESTINATION, 0x0200_0000_0099),
        (Field::ETH_TYPE, ethernet::IPV4.into()),
        (Field::IPV4_SOURCE, u32::from(ADDRESSES[0]).into()),
        (Field::IPV4_DESTINATION, u32::from(ADDRESSES[1]).into()),
        (Field::IP_PROTOCOL, ip::UDP.into()),
        (Field::IP_TTL, 64),
        (Field::L4_SOURCE, flow.into()),
        (Field::L4_DESTINATION, 7),
    ] {
        key.set(field, value);
    }
    build(&key, &number.to_be_bytes())
}

/// The flow of a datagram and its number; nothing, if it is none.
fn read(frame: &[u8]) -> Option<(u16, u32)> {
    let is_ours = frame.first_chunk() == Some(&[2, 0, 0, 0, 0, 0x99]);
    let flow = u16::from_be_bytes(*frame.get(34..)?.first_chunk()?);
    let number = u32::from_be_bytes(*frame.get(42..)?.first_chunk()?);
    is_ours.then_some((flow, number))
}

fn take(port: &mut Port) -> Vec<(u16, u32)> {
    let mut all = Vec::new();
    while port.receive(64, |frame| all.extend(read(frame.bytes()))).expect("it is up") > 0 {}
    all
}

/// Whether all came, each once, and where: flows by the processor that first sent them, and nowhere else while they were not silent.
fn check(sent: &BTreeMap<(u16, u32), (usize, Duration)>, came: [Vec<(u16, u32)>; 2]) {
    let mut lane_of: BTreeMap<(u16, u32), usize> = BTreeMap::new();
    for (lane, frames) in came.into_iter().enumerate() {
        for frame in frames {
            assert_eq!(lane_of.insert(frame, lane), None, "{frame:?} came twice");
        }
    }
    assert!(lane_of.keys().eq(sent.keys()), "all came");
    for (&(flow, number), &(processor, gap)) in sent {
        let lane = lane_of[&(flow, number)];
        if number == 0 {
            assert_eq!(lane, processor, "the first of flow {flow}");
        } else if gap < SILENCE {
            assert_eq!(lane, lane_of[&(flow, number - 1)], "{number} of flow {flow} came elsewhere");
        }
    }
}

#[test]
fn a_flow_comes_where_it_was_first_sent() {
    let network = Network::new("lanes");
    let mut lanes = lanes(&network.switch, "port1");
    let mut from = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    let mut sent = BTreeMap::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Neighbours, so that no two have one hash: it is that of their sum.
            for flow in 1000..1064u16 {
                let mut last = Instant::now();
                for number in 0..8 {
                    let processor = (usize::from(flow) % 2) ^ usize::from(number >= 4);
                    run_on(processor);
                    let begun = Instant::now();
                    from.send(&datagram(flow, number), Offload::NONE);
                    from.flush();
                    // At the most: from before that one to after this one.
                    sent.insert((flow, number), (processor, last.elapsed()));
                    last = begun;
                }
            }
        });
    });
    check(&sent, lanes.each_mut().map(take));
}

#[test]
#[should_panic(expected = "1 of flow 7 came elsewhere")]
fn the_check_notices_a_flow_that_moves() {
    let sent = [((7, 0), (0, Duration::ZERO)), ((7, 1), (1, Duration::ZERO))].into();
    check(&sent, [vec![(7, 0)], vec![(7, 1)]]);
}

/// What tells flows apart, of kinds of frames: where the first is, all must be.
#[test]
fn what_belongs_together_comes_together() {
    let network = Network::new("kinds");
    let mut lanes = lanes(&network.switch, "port1");
    let mut from = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    let with = |from: u8, to: &[u8], at: usize| {
        let mut frame = datagram(u16::from(from) << 8, 0);
        frame.resize(100, 0);
        frame[at..at + to.len()].copy_from_slice(to);
        frame
    };
    // Fragments have other bytes where ports would be; and so has what has no ports.
    let fragments = [[0x20, 0], [0x20, 1], [0, 9]].map(|place| with(place[1], &place, 20));
    let icmp = [1, 2].map(|number| with(number, &[ip::ICMP], 23));
    let mut arp = [1, 2].map(|number| with(number, &ethernet::ARP.to_be_bytes(), 12));
    arp[1][26..34].copy_from_slice(&[9; 8]);
    let mut v6 = [1u8, 1].map(|number| with(number, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, ip::UDP, 64], 12));
    // Another hop limit, and other content.
    v6[1][21] = 63;
    v6[1][70] = 1;
    let tagged = icmp.clone().map(|mut frame| {
        frame.splice(12..12, [0x81, 0, 0, 7]);
        frame
    });
    let kinds: [&[Vec<u8>]; 5] = [&fragments, &icmp, &arp, &v6, &tagged];
    for kind in kinds {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut begun = Instant::now();
                // Who was held up for as long as a silence tries again.
                loop {
                    for (number, frame) in kind.iter().enumerate() {
                        run_on(number % 2);
                        from.send(frame, Offload::NONE);
                        from.flush();
                    }
                    let came = lanes.each_mut().map(|lane| {
                        let mut count = 0;
                        while lane
                            .receive(64, |frame| count += usize::from(frame.bytes()[5] == 0x99))
                            .expect("it is up")
                            > 0
                        {}
                        count
                    });
                    assert_eq!(came.iter().sum::<usize>(), kind.len());
                    let is_late = begun.elapsed() >= SILENCE;
                    begun = Instant::now();
                    if !is_late {
                        assert!(came.contains(&0), "{came:?} of {kind:02x?}");
                        return;
                    }
                }
            });
        });
    }
}

/// At an interface of one queue, both send by sockets that have their memory in common.
#[test]
fn all_lanes_send_at_once() {
    const FRAMES: u32 = 20_000;
    const WINDOW: u32 = 500;
    for queues in [1, 2] {
        let network = Network::with_queues(&format!("both-lanes{queues}"), queues);
        let mut lanes = lanes(&network.switch, "port1");
        let mut to = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
        for round in 0..FRAMES / WINDOW {
            let numbers = round * WINDOW..(round + 1) * WINDOW;
            thread::scope(|scope| {
                for (flow, lane) in (0..).zip(&mut lanes) {
                    let numbers = numbers.clone();
                    scope.spawn(move || {
                        for number in numbers {
                            lane.send(&datagram(flow, number), Offload::NONE);
                            if number % 7 == 0 {
                                lane.flush();
                            }
                        }
                        lane.flush();
                    });
                }
            });
            let came = take(&mut to);
            for flow in [0, 1] {
                let of_flow = came.iter().filter(|frame| frame.0 == flow).map(|frame| frame.1);
                assert!(of_flow.eq(numbers.clone()), "of lane {flow}, by {queues} queues: {came:?}");
            }
        }
        for lane in &mut lanes {
            assert_eq!((lane.counters().sent.errors, lane.counters().sent.dropped), (0, 0));
        }
    }
}

/// Sets it at its end, however that comes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What comes while an interface is opened comes once.
#[test]
fn nothing_comes_twice_from_the_beginning() {
    let network = Network::new("begin");
    let mut from = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                from.send(&datagram(9, number), Offload::NONE);
                from.flush();
                // Fewer than a port holds, while one is opened.
                let now = Instant::now();
                while now.elapsed() < Duration::from_micros(50) {
                    thread::yield_now();
                }
                if has_ended.load(Relaxed) {
                    return;
                }
            }
        });
        let _ends = Ends(&has_ended);
        for _ in 0..20 {
            let mut lanes = lanes(&network.switch, "port1");
            let (mut came, mut twice) = (BTreeSet::new(), Vec::new());
            while came.len() < 100 {
                twice.extend(lanes.iter_mut().flat_map(take).filter(|(_, number)| !came.insert(*number)));
            }
            // One may be under way in the kernel while an interface is opened.
            assert!(twice.len() <= 1, "{twice:?}");
        }
    });
}

#[test]
fn an_interface_that_is_down_is_opened_and_works_when_it_is_up() {
    let network = Network::new("down-lanes");
    network.switch.ip(&["link", "set", "port1", "down"]).expect("root may");
    let mut lanes =
        network.switch.within(|| packet::open_lanes("port1", TWO).expect("it is there, if not up"));
    network.switch.ip(&["link", "set", "port1", "up"]).expect("root may");
    let mut from = network.hosts[0].within(|| packet::open("eth0").expect("it is there"));
    from.send(&datagram(1, 0), Offload::NONE);
    from.flush();
    // Those that know that they were down say so once.
    let mut came = Vec::new();
    while came.is_empty() {
        for lane in &mut lanes {
            let _ = lane.receive(64, |frame| came.extend(read(frame.bytes())));
        }
    }
    assert_eq!(came, [(1, 0)]);
}
