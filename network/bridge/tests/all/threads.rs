//! A switch with several threads for packets: each port's frames keep their order and are all there, and what is learned is learned once.

use fulmar_bridge::Bridge;
use fulmar_openflow::Body;
use fulmar_openflow::flow::FlowMod;
use fulmar_port::{Offload, Port, memory};
use fulmar_vswitch::{PortInfo, Settings, Switch};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

const PORTS: u32 = 6;
/// Each port sends so many.
const FRAMES: u64 = 20_000;
/// So many frames of one port are under way: less than what a link holds, divided by those who send to it.
const WINDOW: u64 = 500;

fn three() -> NonZeroUsize {
    NonZeroUsize::new(3).expect("it is not 0")
}

/// A switch with these flows, and the other ends of its ports, from 1 on.
fn switch(flows: &[&str]) -> (Bridge, Vec<Port>) {
    let bridge = Bridge::start("br0", Switch::new(1, "br0", Settings::default()), three(), |_| ());
    let bridge = bridge.expect("threads");
    for flow in flows {
        add(&bridge, flow);
    }
    let mut hosts = Vec::new();
    for number in 1..=PORTS {
        let (port, host) = memory::pair().expect("a link");
        let address = [2, 0, 0, 0, 0, u8::try_from(number).expect("it is small")];
        bridge.attach(number, PortInfo::new(&format!("port{number}"), address), port);
        hosts.push(host);
    }
    // All threads have all ports from here on.
    bridge.look(|_, _| ());
    (bridge, hosts)
}

fn add(bridge: &Bridge, flow: &str) {
    let flow: FlowMod = flow.parse().expect("a flow");
    bridge.switch().request(Body::FlowMod(flow), fulmar_node::Time::ZERO).expect("it is good");
}

/// From a port to a port, with a number.
fn frame(from: u32, to: u32, number: u64) -> [u8; 60] {
    let mut frame = [0; 60];
    let address = |port: u32| [2, 0, 0, 0, 0, u8::try_from(port).expect("it is small")];
    frame[..6].copy_from_slice(&address(to));
    frame[6..12].copy_from_slice(&address(from));
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..22].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Whose a frame is, and its number.
fn read(frame: &[u8]) -> (u32, u64) {
    (frame[11].into(), u64::from_be_bytes(frame[14..22].try_into().expect("eight bytes")))
}

/// By who sent them, the numbers of frames that a host got: that each is the next one.
#[derive(Default)]
struct Order([u64; PORTS as usize + 1]);

impl Order {
    fn comes(&mut self, from: u32, number: u64) {
        let next = &mut self.0[from as usize];
        assert_eq!(number, *next, "frame of port {from}");
        *next += 1;
    }
}

#[test]
fn frames_of_a_port_keep_their_order_and_none_is_lost() {
    // From each port to the two behind it; so each exit is of two threads at least.
    let flows: Vec<String> = (1..=PORTS)
        .map(|port| {
            let [one, two] = [1, 2].map(|behind| (port - 1 + behind) % PORTS + 1);
            format!("in_port={port} actions=output:{one},output:{two}")
        })
        .collect();
    let (bridge, hosts) = switch(&flows.iter().map(String::as_str).collect::<Vec<_>>());
    // Until the other frames of a round have arrived nobody begins the next.
    let rounds = Arc::new(std::sync::Barrier::new(PORTS as usize));
    thread::scope(|scope| {
        for (port, mut host) in (1..).zip(hosts) {
            let rounds = rounds.clone();
            scope.spawn(move || {
                let mut order = Order::default();
                for round in 0..FRAMES / WINDOW {
                    for number in round * WINDOW..(round + 1) * WINDOW {
                        host.send(&frame(port, 0, number), Offload::NONE);
                    }
                    host.flush();
                    let mut left = 2 * WINDOW;
                    while left > 0 {
                        let each = |frame: fulmar_port::Frame<'_>| {
                            let (from, number) = read(frame.bytes());
                            order.comes(from, number);
                            left -= 1;
                        };
                        if host.receive(64, each).expect("it is there") == 0 {
                            thread::yield_now();
                        }
                    }
                    rounds.wait();
                }
            });
        }
    });
    let told = bridge.remembered().expect("it runs");
    // Decisions are renewed if links were told meanwhile.
    let hits = told.hits.microflow + told.hits.megaflow + told.hits.missed + told.hits.renewed;
    assert_eq!(hits, u64::from(PORTS) * FRAMES);
    assert_eq!(told.megaflows, PORTS as usize);
    let shares = bridge.look(|forwarder, _| forwarder.sizes().0);
    assert_eq!(shares, [2; 3], "each thread has two ports");
    for (_, port) in bridge.switch().ports() {
        let counted = port.counters.all().map(|traffic| traffic.packets);
        assert_eq!(counted, [FRAMES, 0, 2 * FRAMES, 0], "received, refused, sent and dropped");
    }
}

#[test]
#[should_panic(expected = "frame of port 1")]
fn the_check_notices_frames_that_overtake() {
    let mut order = Order::default();
    [0, 2, 1].into_iter().for_each(|number| order.comes(1, number));
}

#[test]
fn no_more_is_learned_than_may_be() {
    // Each station is learned, up to ten; who is not goes to port 1, who is to port 2.
    let learn = "learn(table=1,limit=10,result_dst=NXM_NX_REG0[0],NXM_OF_ETH_SRC[]=NXM_OF_ETH_SRC[],load:1->NXM_NX_REG1[])";
    let (bridge, mut hosts) = switch(&[
        &format!("table=0 actions={learn},resubmit(,2)"),
        "table=2,reg0=0x0/0x1 actions=output:1",
        "table=2,reg0=0x1/0x1 actions=output:2",
    ]);
    // Ports 3 to 6 send at the same time what comes from a station of its own each.
    for station in 0..100u64 {
        for (port, host) in (1..).zip(&mut hosts).skip(2) {
            let mut frame = frame(port, 0, station);
            frame[7..9].copy_from_slice(&u16::try_from(station).expect("it is small").to_be_bytes());
            host.send(&frame, Offload::NONE);
        }
    }
    thread::scope(|scope| hosts[2..].iter_mut().for_each(|host| drop(scope.spawn(|| host.flush()))));
    let (mut refused, mut learned) = (0, 0);
    while refused + learned < 400 {
        refused += hosts[0].receive(64, |_| ()).expect("it is there");
        learned += hosts[1].receive(64, |_| ()).expect("it is there");
        thread::yield_now();
    }
    assert_eq!((refused, learned), (390, 10));
    assert_eq!(bridge.switch().flows(), 3 + 10);
}

/// Two bridges that are joined twice sent each frame that is for all round and round, 100,000 times a second.
#[test]
fn a_loop_of_patch_ports_ends() {
    let ((one, mut hosts), (two, _others)) = (switch(&["actions=NORMAL"]), switch(&["actions=NORMAL"]));
    let patches = [PORTS + 1, PORTS + 2];
    for number in patches {
        let (here, there) = memory::pair().expect("a link");
        for (bridge, end) in [(&one, here), (&two, there)] {
            bridge.attach(number, PortInfo::new(&format!("patch{number}"), [2, 0, 0, 0, 1, 1]), end);
        }
    }
    // To a station that nobody knows.
    hosts[0].send(&frame(1, 99, 0), Offload::NONE);
    hosts[0].flush();
    // It goes one way round and the other, and ends once each.
    let ended = || -> u64 {
        let ports = [&one, &two].into_iter().flat_map(|bridge| bridge.switch().ports());
        let patches = ports.filter(|(number, _)| patches.contains(number));
        patches.map(|(_, port)| port.counters.all()[3].packets).sum()
    };
    while ended() < 2 {
        thread::yield_now();
    }
    one.look(|_, _| ());
    let copies = hosts[1].receive(usize::MAX, |_| ()).expect("it is there");
    assert!((2..=128).contains(&copies), "{copies}");
}
