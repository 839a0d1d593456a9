//! The simulator itself: one thing happens after another.

mod inputs;
mod outputs;

use crate::network::Network;
use crate::node::{Input, Node, Processes};
use crate::program::Program;
use crate::trace::{Trace, What};
use crate::wheel::Wheel;
use crate::{Counts, Seed};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Random, Time};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::time::Duration;

/// A process that can be simulated: what it exchanges can be shown, and what is sent can be doubled.
pub trait Simulated:
    Process<Message: Clone + Debug, Timer: Debug, Request: Debug, Event: Debug, Record: Clone + Debug> + 'static
{
}

impl<P> Simulated for P where
    P: Process<Message: Clone + Debug, Timer: Debug, Request: Debug, Event: Debug, Record: Clone + Debug>
        + 'static
{
}

type Action<P> = Box<dyn FnOnce(&mut Sim<P>)>;
type Factory<P> = Box<dyn FnMut(NodeId, &[<P as Process>::Record]) -> P>;
type Invariant<P> = Box<dyn FnMut(&Processes<'_, P>) -> Result<(), String>>;

/// What lies ahead.
pub(crate) enum Happening<P: Simulated> {
    Arrival { from: NodeId, to: NodeId, connection: u32, message: P::Message },
    Input { node: NodeId, incarnation: u32, input: Input<P> },
    Alarm { node: NodeId, incarnation: u32, timer: P::Timer },
    Served { node: NodeId, incarnation: u32 },
    Departed { node: NodeId, incarnation: u32 },
    Synced { node: NodeId, incarnation: u32, upto: usize },
    Wake { program: usize, turn: u64 },
    Action(Action<P>),
}

/// A world of nodes with processes of one type, an enum of roles if there are several.
pub struct Sim<P: Simulated> {
    /// The network, whose links and multicast sets may change at any time.
    pub network: Network,
    /// How often what has happened.
    pub counts: Counts,
    pub(crate) seed: Seed,
    pub(crate) now: Time,
    pub(crate) wheel: Wheel<Happening<P>>,
    pub(crate) nodes: Vec<Option<Box<Node<P>>>>,
    pub(crate) programs: Vec<Program<P>>,
    /// How many of the programs have not ended.
    pub(crate) running: usize,
    pub(crate) trace: Trace,
    pub(crate) factory: Factory<P>,
    pub(crate) invariants: Vec<(u64, Invariant<P>)>,
    pub(crate) events: VecDeque<(NodeId, P::Event)>,
    /// Chance of disks, services and crashes; the network and the faults have their own.
    pub(crate) random: Random,
    /// How long a message is, bytes, if that matters.
    size: Option<fn(&P::Message) -> usize>,
    pub(crate) misfortune: Random,
    user_random: Random,
    /// How often all faults were ended.
    pub(crate) healings: u64,
}

impl<P: Simulated> Sim<P> {
    /// An empty world. `factory` makes the process of a node whenever that comes up, from the records that its log
    /// holds.
    pub fn new(seed: impl Into<Seed>, factory: impl FnMut(NodeId, &[P::Record]) -> P + 'static) -> Self {
        let seed = seed.into();
        let mut random = Random::new(seed.number);
        Self {
            network: Network::new(random.fork()),
            counts: Counts::default(),
            now: Time::ZERO,
            wheel: Wheel::new(),
            nodes: Vec::new(),
            programs: Vec::new(),
            running: 0,
            trace: Trace::new(seed.detail()),
            factory: Box::new(factory),
            invariants: Vec::new(),
            events: VecDeque::new(),
            misfortune: random.fork(),
            user_random: random.fork(),
            random,
            size: None,
            healings: 0,
            seed,
        }
    }

    /// Adds a node, whose process starts now. Nodes are kept in a table as long as the largest name.
    ///
    /// # Panics
    ///
    /// If there is one of that name.
    pub fn add(&mut self, id: NodeId) {
        let index = id.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, || None);
        }
        assert!(self.nodes[index].is_none(), "{id} is there already");
        self.nodes[index] = Some(Box::new(Node::new()));
        self.boot(id);
    }

    /// From now on each link carries so many bytes in a second, from one node to another, and a message waits for those before it; `size` says how
    /// many one has.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn set_rate(&mut self, bytes: u64, size: fn(&P::Message) -> usize) {
        assert!(bytes > 0, "a link that carries nothing is cut");
        self.network.set_rate(bytes);
        self.size = Some(size);
    }

    /// The simulator's time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// What the clock of a node shows.
    #[must_use]
    pub fn clock(&self, id: NodeId) -> Time {
        self.node(id).clock.shows(self.now)
    }

    /// Chance for the user, of which the simulator itself takes nothing.
    pub const fn random(&mut self) -> &mut Random {
        &mut self.user_random
    }

    /// The process of a node that is up.
    #[must_use]
    pub fn process(&self, id: NodeId) -> Option<&P> {
        self.processes().get(id)
    }

    /// The nodes that were added, whether they are up or not.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..).map(NodeId).zip(&self.nodes).filter_map(|(id, node)| node.as_ref().map(|_| id))
    }

    /// The processes that are up.
    #[must_use]
    pub fn processes(&self) -> Processes<'_, P> {
        Processes(&self.nodes)
    }

    /// The records that a node would be made from if it crashed now and lost as few as can be.
    #[must_use]
    pub fn log(&self, id: NodeId) -> &[P::Record] {
        &self.node(id).disk.log
    }

    /// Those of them that no crash takes.
    #[must_use]
    pub fn durable_log(&self, id: NodeId) -> &[P::Record] {
        let disk = &self.node(id).disk;
        &disk.log[..disk.durable]
    }

    /// How many messages a node has received or sent, in all its lives; a multicast is one.
    #[must_use]
    pub fn messages(&self, id: NodeId) -> u64 {
        self.node(id).messages
    }

    /// Checks after every so many steps that all is well; a run in which it is not panics.
    pub fn invariant(
        &mut self,
        every: u64,
        check: impl FnMut(&Processes<'_, P>) -> Result<(), String> + 'static,
    ) {
        self.invariants.push((every.max(1), Box::new(check)));
    }

    /// Hands a node's process a request, now. One that is down does not hear of it.
    pub fn request(&mut self, id: NodeId, request: P::Request) {
        let incarnation = self.node(id).incarnation;
        let input = Input::Request(request);
        self.wheel.insert(self.now, Happening::Input { node: id, incarnation, input });
    }

    /// Does something at a time, or as soon as may be if that has passed.
    pub fn at(&mut self, time: Time, action: impl FnOnce(&mut Self) + 'static) {
        self.wheel.insert(time, Happening::Action(Box::new(action)));
    }

    /// Does something after a while.
    pub fn after(&mut self, wait: Duration, action: impl FnOnce(&mut Self) + 'static) {
        self.at(self.now + wait, action);
    }

    /// Goes on until a process tells its user something, unless a program is told, and at most until `limit`.
    ///
    /// # Panics
    ///
    /// If an invariant does not hold, and as processes, actions and programs do.
    pub fn next_event(&mut self, limit: Time) -> Option<(NodeId, P::Event)> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if !self.step(limit) {
                return None;
            }
        }
    }

    /// Goes on for so long, and hands `user` what processes tell.
    ///
    /// # Panics
    ///
    /// As [`Sim::next_event`] does.
    pub fn run(&mut self, span: Duration, mut user: impl FnMut(&mut Self, NodeId, P::Event)) {
        let limit = self.now + span;
        while let Some((node, event)) = self.next_event(limit) {
            user(self, node, event);
        }
    }

    /// Goes on until `done`, which is asked after every step, and says whether it came to that within `span`. `user`
    /// gets what processes tell.
    ///
    /// # Panics
    ///
    /// As [`Sim::next_event`] does.
    pub fn run_until(
        &mut self,
        span: Duration,
        mut user: impl FnMut(&mut Self, NodeId, P::Event),
        mut done: impl FnMut(&Self) -> bool,
    ) -> bool {
        let limit = self.now + span;
        loop {
            while let Some((node, event)) = self.events.pop_front() {
                user(self, node, event);
            }
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return false;
            }
        }
    }

    /// Lets the next thing happen that is due by `limit`; if there is none, it becomes `limit`, unless that is
    /// [`Time::MAX`].
    ///
    /// # Panics
    ///
    /// As [`Sim::next_event`] does.
    pub fn step(&mut self, limit: Time) -> bool {
        let Some((time, happening)) = self.wheel.pop(limit) else {
            if limit < Time::MAX {
                self.now = self.now.max(limit);
            }
            return false;
        };
        self.now = time;
        match happening {
            Happening::Arrival { from, to, connection, message } => {
                self.arrive(from, to, connection, message)
            }
            Happening::Input { node, incarnation, input } => {
                if self.node(node).incarnation == incarnation {
                    self.admit(node, input);
                }
            }
            Happening::Alarm { node, incarnation, timer } => self.ring(node, incarnation, timer),
            Happening::Served { node, incarnation } => self.served(node, incarnation),
            Happening::Departed { node, incarnation } => self.departed(node, incarnation),
            Happening::Synced { node, incarnation, upto } => self.synced(node, incarnation, upto),
            Happening::Wake { program, turn } => self.wake(program, turn),
            Happening::Action(action) => action(self),
        }
        true
    }

    /// A line of the user's in the trace.
    pub fn note(&mut self, node: NodeId, text: fmt::Arguments<'_>) {
        self.trace.add(self.now, node, What::Note, text);
    }

    /// A number that two runs share only if they went alike, as far as the trace is made.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// The lines of the trace, if they are [kept](crate::Detail::Kept).
    #[must_use]
    pub fn trace(&self) -> &str {
        self.trace.kept()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node<P> {
        let node = self.nodes.get(id.0 as usize).and_then(Option::as_deref);
        node.unwrap_or_else(|| panic!("there is no node {id}"))
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node<P> {
        let node = self.nodes.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
        node.unwrap_or_else(|| panic!("there is no node {id}"))
    }

    /// Makes the process of a node that is down.
    pub(crate) fn boot(&mut self, id: NodeId) {
        let index = id.0 as usize;
        let Some(node) = self.nodes[index].as_deref_mut() else { return };
        node.process = Some((self.factory)(id, &node.disk.log));
        node.out = Outbox::after(Lsn(node.disk.log.len() as u64));
        let incarnation = node.incarnation;
        self.wheel.insert(self.now, Happening::Input { node: id, incarnation, input: Input::Start });
    }
}
