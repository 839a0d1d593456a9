//! Switches whose links form loops, in a spanning tree: with links inside of the process, and a second at a time.

use fulmar_bridge::{Bridge, SpanningPort, SpanningTree};
use fulmar_port::{Offload, Port, memory};
use fulmar_rstp::{BridgeId, Role, Times};
use fulmar_vswitch::{PortInfo, Settings, Switch};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

/// Its host's port, and those of links.
const HOST: u16 = 1;
/// By then there is a tree, whatever the machine is busy with.
const SOON: Duration = Duration::from_secs(60);

/// Switches, each joined to the next by so many links, and the hosts at them.
struct Ring {
    bridges: Vec<Bridge>,
    hosts: Vec<Port>,
}

impl Ring {
    fn new(size: usize, links: usize) -> Self {
        let mut ring = Self { bridges: Vec::new(), hosts: Vec::new() };
        let mut ports =
            vec![BTreeMap::from([(HOST, SpanningPort { is_edge: true, ..SpanningPort::default() })]); size];
        for number in 0..size {
            let bridge =
                Bridge::start("br", Switch::new(1, "br", Settings::default()), NonZeroUsize::MIN, |_| ());
            let bridge = bridge.expect("threads");
            let (port, host) = memory::pair().expect("a link");
            bridge.attach(HOST.into(), PortInfo::new("host", [2, 0, 0, 0, 1, address(number)]), port);
            ring.bridges.push(bridge);
            ring.hosts.push(host);
        }
        for (number, link) in (0..size).flat_map(|number| (0..links).map(move |link| (number, link))) {
            let next = (number + 1) % size;
            let (here, there) = memory::pair().expect("a link");
            for (bridge, end) in [(number, here), (next, there)] {
                let port = HOST + u16::try_from(ports[bridge].len()).expect("few");
                let mut info = PortInfo::new(&format!("to{number}.{link}"), [2, 0, 0, 0, 2, address(bridge)]);
                info.tree = Some(fulmar_rstp::State::default());
                ring.bridges[bridge].attach(port.into(), info, end);
                ports[bridge].insert(port, SpanningPort::default());
            }
        }
        for (number, (bridge, ports)) in ring.bridges.iter().zip(&ports).enumerate() {
            let id = BridgeId::new(0x8000, [2, 0, 0, 0, 0, address(number)]);
            bridge.set_spanning_tree(Some((&SpanningTree { id, times: Times::default() }, ports)));
            bridge.work_alone();
        }
        ring
    }

    /// Whether all know the same root, and each but that forwards by the one port that leads there.
    fn is_a_tree(&self) -> bool {
        let first = BridgeId::new(0x8000, [2, 0, 0, 0, 0, address(0)]);
        self.bridges.iter().enumerate().all(|(number, bridge)| {
            let status = bridge.spanning_tree().expect("it is in one");
            let forward = |role| {
                status.ports.values().filter(|port| port.role == role && port.state.forwarding).count()
            };
            let is_settled = status
                .ports
                .values()
                .all(|port| port.state.forwarding == matches!(port.role, Role::Root | Role::Designated));
            status.root == first && forward(Role::Root) == usize::from(number > 0) && is_settled
        })
    }

    fn wait(&self) {
        let begun = Instant::now();
        while !self.is_a_tree() {
            assert!(
                begun.elapsed() < SOON,
                "{:?}",
                self.bridges.iter().map(Bridge::spanning_tree).collect::<Vec<_>>()
            );
            self.bridges.iter().for_each(Bridge::tick);
            thread::yield_now();
        }
    }

    /// What is for all reaches each of the others once.
    fn require_reached_once(&mut self) {
        for number in 0..self.hosts.len() {
            let mut frame = [0xff; 60];
            frame[6..12].copy_from_slice(&[2, 0, 0, 0, 3, address(number)]);
            frame[12..14].copy_from_slice(&[0x88, 0xb5]);
            self.hosts[number].send(&frame, Offload::NONE);
            self.hosts[number].flush();
            for other in 0..self.hosts.len() {
                let mut heard = 0;
                let wanted = usize::from(other != number);
                let begun = Instant::now();
                while heard < wanted && begun.elapsed() < SOON {
                    heard += heard_by(&mut self.hosts[other], number);
                    thread::yield_now();
                }
                assert_eq!(heard, wanted, "from {number} to {other}");
            }
            // Whatever is on its way has come.
            for _ in 0..3 {
                self.bridges.iter().for_each(|bridge| drop(bridge.look(|_, _| ())));
            }
            for host in &mut self.hosts {
                assert_eq!(heard_by(host, number), 0, "from {number}, again");
            }
        }
    }
}

/// How many frames of another a host has heard, beside messages of the tree.
fn heard_by(host: &mut Port, from: usize) -> usize {
    let mut heard = 0;
    let each = |frame: fulmar_port::Frame<'_>| {
        if frame.bytes()[0] == 0xff {
            assert_eq!(frame.bytes()[11], address(from));
            heard += 1;
        }
    };
    host.receive(64, each).expect("a link");
    heard
}

fn address(number: usize) -> u8 {
    u8::try_from(number).expect("few")
}

/// One broadcast went round 322,127 times in three seconds.
#[test]
fn what_is_for_all_goes_where_a_tree_leads() {
    for (size, links) in [(2, 1), (3, 1), (4, 2)] {
        let mut ring = Ring::new(size, links);
        ring.wait();
        ring.require_reached_once();
        // A way that breaks is not needed.
        let status = ring.bridges[1].spanning_tree().expect("it is in one");
        let (way, _) = status.way.expect("it is not the root");
        ring.bridges[1].detach(&[way.into()]);
        let reaches = |ring: &Ring| {
            let status = ring.bridges[1].spanning_tree().expect("it is in one");
            status.way.is_some_and(|(port, _)| port != way)
        };
        let begun = Instant::now();
        while !reaches(&ring) || !ring.is_a_tree() {
            assert!(begun.elapsed() < SOON);
            ring.bridges.iter().for_each(Bridge::tick);
            thread::yield_now();
        }
        ring.require_reached_once();
    }
}

/// Who leaves the tree is an ordinary switch again, and so are its ports.
#[test]
fn who_takes_no_part_forwards() {
    let ring = Ring::new(2, 2);
    ring.bridges.iter().for_each(|bridge| bridge.set_spanning_tree(None));
    for bridge in &ring.bridges {
        assert!(bridge.spanning_tree().is_none());
        assert!(bridge.switch().ports().iter().all(|(_, port)| port.tree.is_none()));
    }
}
