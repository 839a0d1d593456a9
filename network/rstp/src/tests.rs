//! Networks of bridges whose links come and go: no loop ever, and a tree that reaches all soon after.

use super::*;
use crate::bpdu::{Bpdu, Flags, SaidRole};
use crate::vector::Vector;
use fulmar_node::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The end of a link: a bridge, and its port.
type End = (usize, u16);

struct World {
    bridges: Vec<Tree>,
    links: BTreeMap<(End, End), bool>,
    states: BTreeMap<End, State>,
    under_way: VecDeque<(End, Vec<u8>)>,
    flushes: usize,
    random: Random,
}

impl World {
    fn new(bridges: usize, seed: u64) -> Self {
        let bridge = |number: usize| {
            let address = [2, 0, 0, 0, 0, u8::try_from(number).expect("few")];
            Tree::new(BridgeId::new(0x8000, address), Times::default())
        };
        Self {
            bridges: (0..bridges).map(bridge).collect(),
            links: BTreeMap::new(),
            states: BTreeMap::new(),
            under_way: VecDeque::new(),
            flushes: 0,
            random: Random::new(seed),
        }
    }

    fn join(&mut self, one: usize, other: usize) {
        let port = |world: &Self, bridge: usize| {
            let ends = world.links.keys().flat_map(|(a, b)| [*a, *b]).filter(|(at, _)| *at == bridge);
            1 + u16::try_from(ends.count()).expect("few")
        };
        let here = (one, port(self, one));
        let there = (other, port(self, other) + u16::from(one == other));
        for (bridge, number) in [here, there] {
            let address =
                [2, 0, 0, 1, u8::try_from(bridge).expect("few"), u8::try_from(number).expect("few")];
            self.bridges[bridge].put_port(number, 0x80, address, 2_000);
        }
        self.links.insert((here, there), false);
        self.set((here, there), true);
    }

    fn set(&mut self, link: (End, End), is_up: bool) {
        *self.links.get_mut(&link).expect("one of these") = is_up;
        for (bridge, port) in [link.0, link.1] {
            self.bridges[bridge].set_link(port, is_up);
            self.obey(bridge);
        }
    }

    fn peer(&self, end: End) -> Option<End> {
        self.links.iter().filter(|(_, is_up)| **is_up).find_map(|((a, b), _)| match end {
            end if end == *a => Some(*b),
            end if end == *b => Some(*a),
            _ => None,
        })
    }

    fn obey(&mut self, bridge: usize) {
        for effect in self.bridges[bridge].take_effects() {
            match effect {
                Effect::Send(port, frame) => {
                    if let Some(peer) = self.peer((bridge, port)) {
                        self.under_way.push_back((peer, frame));
                    }
                }
                Effect::State(port, state) => {
                    self.states.insert((bridge, port), state);
                }
                Effect::Flush(_) => self.flushes += 1,
            }
        }
    }

    fn deliver(&mut self) {
        let mut left = 100_000;
        while let Some(((bridge, port), frame)) = self.under_way.pop_front() {
            if self.peer((bridge, port)).is_some() {
                self.bridges[bridge].receive(port, &frame);
                self.obey(bridge);
            }
            left -= 1;
            assert!(left > 0, "they talk without end");
        }
    }

    fn pass(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.deliver();
            for bridge in 0..self.bridges.len() {
                self.bridges[bridge].tick();
                self.obey(bridge);
            }
        }
        self.deliver();
    }

    /// Links by which frames go both ways.
    fn open(&self) -> Vec<(End, End)> {
        let forwards = |end: &End| self.states.get(end).is_some_and(|state| state.forwarding);
        let open = self.links.iter().filter(|((a, b), is_up)| **is_up && forwards(a) && forwards(b));
        open.map(|(link, _)| *link).collect()
    }

    fn require_no_loop(&self) {
        let mut groups: Vec<usize> = (0..self.bridges.len()).collect();
        for ((a, _), (b, _)) in self.open() {
            assert_ne!(groups[a], groups[b], "a loop, by {:?}", self.open());
            let (from, to) = (groups[a], groups[b]);
            groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
        }
    }

    /// Whether those that are joined at all are joined by open links.
    fn require_whole(&self) {
        self.require_no_loop();
        let group = |links: &[(End, End)]| {
            let mut groups: Vec<usize> = (0..self.bridges.len()).collect();
            for ((a, _), (b, _)) in links {
                let (from, to) = (groups[*a], groups[*b]);
                groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
            let mut sets = BTreeMap::<usize, BTreeSet<usize>>::new();
            for (bridge, group) in groups.iter().enumerate() {
                sets.entry(*group).or_default().insert(bridge);
            }
            sets.into_values().collect::<BTreeSet<_>>()
        };
        let up: Vec<_> = self.links.iter().filter(|(_, is_up)| **is_up).map(|(link, _)| *link).collect();
        assert_eq!(group(&self.open()), group(&up));
    }
}

#[test]
fn two_bridges_with_two_links_use_one() {
    let mut world = World::new(2, 1);
    world.join(0, 1);
    world.join(0, 1);
    world.pass(1);
    world.require_whole();
    assert_eq!(world.open().len(), 1);
    assert_eq!((world.bridges[0].way(), world.bridges[1].way()), (None, Some((1, 2_000))));
    assert_eq!(world.bridges[1].status(2).map(|port| port.role), Some(Role::Alternate));
    // The other is used at once.
    let first = *world.links.keys().next().expect("two");
    world.set(first, false);
    world.deliver();
    world.require_whole();
    assert!(world.flushes > 0);
}

#[test]
fn a_host_is_served_in_seconds_and_who_is_said_to_be_one_at_once() {
    let mut bridge = Tree::new(BridgeId::new(0x8000, [2; 6]), Times::default());
    for number in [1, 2] {
        bridge.put_port(number, 0x80, [2; 6], 2_000);
    }
    bridge.set_edge(1, true);
    for number in [1, 2] {
        bridge.set_link(number, true);
    }
    let forwards =
        |bridge: &Tree| [1, 2].map(|number| bridge.status(number).is_some_and(|port| port.state.forwarding));
    assert_eq!(forwards(&bridge), [true, false]);
    for _ in 0..5 {
        bridge.tick();
    }
    assert_eq!(forwards(&bridge), [true, true]);
}

#[test]
fn a_link_from_a_bridge_to_itself_is_not_used() {
    let mut world = World::new(1, 1);
    world.join(0, 0);
    world.pass(40);
    assert_eq!(world.open(), []);
}

#[test]
fn whatever_links_come_and_go_there_is_a_tree() {
    for seed in 1..200 {
        let mut world = World::new(2 + usize::try_from(seed % 7).expect("small"), seed * 0x9e37_79b9);
        let bridges = world.bridges.len();
        for _ in 0..2 * bridges {
            let (one, other) = (world.random.index(bridges), world.random.index(bridges));
            if one != other {
                world.join(one, other);
            }
            let now = world.random.index(2);
            world.pass(now);
        }
        world.pass(8);
        world.require_whole();
        let links: Vec<_> = world.links.keys().copied().collect();
        for _ in 0..20 {
            if links.is_empty() {
                break;
            }
            let link = links[world.random.index(links.len())];
            let is_up = world.random.index(2) == 0;
            world.set(link, is_up);
            let now = world.random.index(3);
            world.pass(now);
        }
        world.pass(70);
        world.require_whole();
    }
}

#[test]
fn messages_are_read_as_they_were_written() {
    let flags = Flags {
        topology_change: true,
        proposal: true,
        role: SaidRole::Designated,
        learning: false,
        forwarding: true,
        agreement: false,
        acknowledgement: false,
    };
    let vector = Vector {
        root: BridgeId(0x8000_0200_0000_0001),
        cost: 20_000,
        bridge: BridgeId(0x8000_0200_0000_0002),
        port: PortId(0x8003),
    };
    let times = Times { message_age: 1, ..Times::default() };
    let frame = Bpdu::Rapid(flags, vector, times).to_frame([2, 0, 0, 0, 0, 9]);
    let text: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        text,
        "0180c2000000020000000009002742420300000202 2f 8000020000000001 00004e20 8000020000000002 8003 0100 1400 0200 0f00 00"
            .replace(' ', "")
            + &"00".repeat(7)
    );
    assert_eq!(Bpdu::of_frame(&frame), Some(Bpdu::Rapid(flags, vector, times)));
    for length in 0..53 {
        assert_eq!(Bpdu::of_frame(&frame[..length]), None, "{length}");
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let mut world = World::new(1, 7);
    world.bridges[0].put_port(1, 0x80, [2; 6], 2_000);
    world.bridges[0].set_link(1, true);
    for _ in 0..50_000 {
        let mut frame = [GROUP.as_slice(), &[2, 0, 0, 0, 0, 9], &[0, 39], &[0x42, 0x42, 3, 0, 0]].concat();
        frame.resize(60, 0);
        for byte in &mut frame[19..60] {
            *byte = match world.random.index(3) {
                0 => 0,
                1 => 2,
                _ => u8::try_from(world.random.index(256)).expect("a byte"),
            };
        }
        world.bridges[0].receive(1, &frame);
        if world.random.index(4) == 0 {
            world.bridges[0].tick();
        }
        drop(world.bridges[0].take_effects());
    }
}
