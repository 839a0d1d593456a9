//! A switch's share in a spanning tree, as it is run: what it hears reaches the [`Tree`], and what that wants is done.

use crate::datapath::Mailbox;
use fulmar_node::Time;
use fulmar_port::Link;
use fulmar_rstp::{BridgeId, Effect, PortStatus, State, Times, Tree};
use fulmar_vswitch::{Event, Switch};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a bridge is to be in a spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanningTree {
    /// Its name there, with its priority.
    pub id: BridgeId,
    /// What it tells others if it is the root.
    pub times: Times,
}

/// What a port is to be in its bridge's spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanningPort {
    /// Of which the upper four bits count.
    pub priority: u8,
    /// What a way by it costs; nothing: as its speed has it.
    pub cost: Option<u32>,
    /// Whether it leads to a host.
    pub is_edge: bool,
}

impl Default for SpanningPort {
    fn default() -> Self {
        Self { priority: 0x80, cost: None, is_edge: false }
    }
}

/// How a bridge is in its tree.
#[derive(Clone, Debug)]
pub struct SpanningStatus {
    /// Its name there.
    pub id: BridgeId,
    /// The root's.
    pub root: BridgeId,
    /// The port that leads there, and what the way costs; nothing, if this is the root.
    pub way: Option<(u16, u32)>,
    /// How its ports are.
    pub ports: BTreeMap<u16, PortStatus>,
}

/// The cost of a way of 1 bit/s (IEEE 802.1D-2004, 17.14)…
const COST: u64 = 20_000_000_000_000;
/// …and of one whose speed is not known: as of 100 Mbit/s.
const USUAL_COST: u32 = 200_000;
/// A tree counts in seconds.
const SECOND: Duration = Duration::from_secs(1);

/// The tree of a switch, if it is to be in one.
#[derive(Default)]
pub(crate) struct Spanning(Option<Running>);

struct Running {
    wanted: SpanningTree,
    tree: Tree,
    ports: BTreeMap<u16, SpanningPort>,
    /// Until when seconds were counted.
    counted: Time,
}

/// What a tree is told by, and acts on.
pub(crate) struct Surroundings<'a> {
    pub(crate) switch: &'a Switch,
    pub(crate) mailbox: &'a Mailbox,
    pub(crate) now: Time,
    /// How links are.
    pub(crate) links: &'a Mutex<BTreeMap<u32, Option<Link>>>,
}

impl Spanning {
    /// Has the switch take part so from now on, with these ports, or not at all. What there is to be told of that.
    pub(crate) fn set(
        &mut self,
        wanted: Option<(&SpanningTree, &BTreeMap<u16, SpanningPort>)>,
        around: &Surroundings<'_>,
    ) -> Vec<Event> {
        let none = BTreeMap::new();
        let ports = wanted.map_or(&none, |(_, ports)| ports);
        let before = self.0.iter().flat_map(|running| running.ports.keys());
        let left = before.filter(|port| !ports.contains_key(port));
        let mut events: Vec<_> =
            left.filter_map(|port| around.switch.set_tree((*port).into(), None)).collect();
        let wanted = wanted.map(|(tree, _)| *tree);
        if self.0.as_ref().map(|running| running.wanted) != wanted {
            self.0 = wanted.map(|wanted| Running::new(wanted, around.now));
        }
        let Some(running) = &mut self.0 else { return events };
        let is_another = |(port, is): &(&u16, &SpanningPort)| ports.get(port) != Some(is);
        let gone: Vec<u16> = running.ports.iter().filter(is_another).map(|(port, _)| *port).collect();
        gone.into_iter().for_each(|port| running.remove(port));
        for (port, wanted) in ports {
            if running.ports.contains_key(port) {
                continue;
            }
            let link = around.links.lock().get(&(*port).into()).copied().flatten();
            events.extend(around.switch.set_tree((*port).into(), Some(State::default())));
            let speed = link.and_then(|link| link.bits_per_second);
            let usual = speed
                .and_then(|speed| COST.checked_div(speed))
                .map(|cost| u32::try_from(cost.clamp(1, 200_000_000)).unwrap_or(USUAL_COST));
            let cost = wanted.cost.or(usual).unwrap_or(USUAL_COST);
            running.tree.put_port(*port, wanted.priority, link.unwrap_or_default().address, cost);
            running.tree.set_edge(*port, wanted.is_edge);
            running.tree.set_link(*port, is_up(link));
            running.ports.insert(*port, *wanted);
        }
        events.extend(running.carry_out(around));
        events
    }

    /// A port has left, or another has its number.
    pub(crate) fn leave(&mut self, port: u32, around: &Surroundings<'_>) -> Vec<Event> {
        self.act(port, around, Running::remove)
    }

    /// A port's link is another than it was.
    pub(crate) fn link(&mut self, port: u32, link: Option<Link>, around: &Surroundings<'_>) -> Vec<Event> {
        self.act(port, around, |running, port| running.tree.set_link(port, is_up(link)))
    }

    /// A frame came in.
    pub(crate) fn hear(&mut self, port: u32, frame: &[u8], around: &Surroundings<'_>) -> Vec<Event> {
        self.act(port, around, |running, port| running.tree.receive(port, frame))
    }

    fn act(
        &mut self,
        port: u32,
        around: &Surroundings<'_>,
        act: impl FnOnce(&mut Running, u16),
    ) -> Vec<Event> {
        let (Some(running), Ok(port)) = (&mut self.0, u16::try_from(port)) else { return Vec::new() };
        act(running, port);
        running.carry_out(around)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, around: &Surroundings<'_>) -> Vec<Event> {
        let Some(running) = &mut self.0 else { return Vec::new() };
        // Who was held up longer than messages are believed starts from there.
        if around.now.since(running.counted) > 10 * SECOND {
            running.counted = around.now;
        }
        while around.now.since(running.counted) >= SECOND {
            running.counted = running.counted + SECOND;
            running.tree.tick();
        }
        running.carry_out(around)
    }

    pub(crate) fn status(&self) -> Option<SpanningStatus> {
        let Running { wanted, tree, ports, .. } = self.0.as_ref()?;
        let ports = ports.keys().filter_map(|port| Some((*port, tree.status(*port)?)));
        Some(SpanningStatus { id: wanted.id, root: tree.root(), way: tree.way(), ports: ports.collect() })
    }
}

impl Running {
    fn new(wanted: SpanningTree, now: Time) -> Self {
        Self { wanted, tree: Tree::new(wanted.id, wanted.times), ports: BTreeMap::new(), counted: now }
    }

    fn remove(&mut self, port: u16) {
        if self.ports.remove(&port).is_some() {
            self.tree.remove_port(port);
        }
    }

    fn carry_out(&mut self, around: &Surroundings<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        for effect in self.tree.take_effects() {
            match effect {
                Effect::Send(port, frame) => around.mailbox.emit(port.into(), frame),
                Effect::State(port, state) => {
                    // Of one that is leaving nothing more is said.
                    if self.ports.contains_key(&port) {
                        events.extend(around.switch.set_tree(port.into(), Some(state)));
                    }
                }
                Effect::Flush(port) => around.switch.forget_port(port.into()),
            }
        }
        events
    }
}

fn is_up(link: Option<Link>) -> bool {
    link.is_some_and(|link| link.is_up && link.is_running)
}
