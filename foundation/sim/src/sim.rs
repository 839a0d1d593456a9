//! The simulator itself: one thing happens after another.

use crate::network::{Fate, Network};
use crate::node::{Alarm, Input, Node, Processes};
use crate::program::Program;
use crate::trace::{Trace, What};
use crate::wheel::Wheel;
use crate::{Counts, Seed};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Random, Time, TimerChange};
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
    Arrival { from: NodeId, to: NodeId, message: P::Message },
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
            Happening::Arrival { from, to, message } => self.arrive(from, to, message),
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

    fn arrive(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        if self.network.is_cut(from, to) {
            self.counts.cut += 1;
            self.trace.add(self.now, to, What::Cut, format_args!("n{} {message:?}", from.0));
            return;
        }
        let up =
            self.nodes.get(to.0 as usize).and_then(Option::as_deref).is_some_and(|n| n.process.is_some());
        if up {
            self.admit(to, Input::Message { from, message });
        } else {
            self.counts.dead += 1;
            self.trace.add(self.now, to, What::Dead, format_args!("n{} {message:?}", from.0));
            if self.nodes.get(to.0 as usize).and_then(Option::as_deref).is_some_and(|node| node.refuses) {
                self.hear_disconnected(from, to);
            }
        }
    }

    /// A deadline has come, unless it was put off, or the clock was set to go slower.
    fn ring(&mut self, id: NodeId, incarnation: u32, timer: P::Timer) {
        let now = self.now;
        let node = self.node_mut(id);
        if node.incarnation != incarnation {
            return;
        }
        let Some(alarm) = node.alarms.get(&timer).copied() else { return };
        if node.clock.shows(now) < alarm.deadline {
            let at = node.clock.when(alarm.deadline);
            let key = self.wheel.insert(at, Happening::Alarm { node: id, incarnation, timer });
            self.node_mut(id).alarms.insert(timer, Alarm { key, at, ..alarm });
        } else {
            node.alarms.remove(&timer);
            self.admit(id, Input::Timer(timer));
        }
    }

    /// Handles an input of a node that is up, at once if it has nothing else to do.
    pub(crate) fn admit(&mut self, id: NodeId, input: Input<P>) {
        let node = self.node_mut(id);
        let is_free = !node.paused && !node.sending && node.inbox.is_empty();
        if is_free && (node.service.is_none() || !matches!(input, Input::Message { .. })) {
            self.handle(id, input);
        } else {
            node.inbox.push_back(input);
            self.serve(id);
        }
    }

    /// Handles what waits at a node, up to a message that takes its time.
    pub(crate) fn serve(&mut self, id: NodeId) {
        loop {
            let node = self.node(id);
            if node.paused || node.serving || node.sending {
                return;
            }
            let incarnation = node.incarnation;
            match (node.inbox.front(), &node.service) {
                (None, _) => return,
                (Some(Input::Message { message, .. }), Some(service)) => {
                    let service = service(message);
                    let done = self.now + service.sample(&mut self.random);
                    self.node_mut(id).serving = true;
                    self.wheel.insert(done, Happening::Served { node: id, incarnation });
                }
                (Some(_), _) => self.handle_next(id),
            }
        }
    }

    fn served(&mut self, id: NodeId, incarnation: u32) {
        let node = self.node_mut(id);
        if node.incarnation != incarnation {
            return;
        }
        node.serving = false;
        if !node.paused {
            self.handle_next(id);
            self.serve(id);
        }
    }

    fn departed(&mut self, id: NodeId, incarnation: u32) {
        let node = self.node_mut(id);
        if node.incarnation == incarnation {
            node.sending = false;
            self.serve(id);
        }
    }

    fn handle_next(&mut self, id: NodeId) {
        if let Some(input) = self.node_mut(id).inbox.pop_front() {
            self.handle(id, input);
        }
    }

    /// One step of a process.
    fn handle(&mut self, id: NodeId, input: Input<P>) {
        let at = self.now;
        let (trace, counts) = (&mut self.trace, &mut self.counts);
        let Some(node) = self.nodes[id.0 as usize].as_deref_mut() else { return };
        let Some(process) = node.process.as_mut() else { return };
        let (now, out) = (node.clock.shows(at), &mut node.out);
        match input {
            Input::Start => {
                trace.add(at, id, What::Start, format_args!("after {} records", out.logged().0));
                process.start(now, out);
            }
            Input::Message { from, message } => {
                trace.add(at, id, What::Receive, format_args!("n{} {message:?}", from.0));
                counts.received += 1;
                node.messages += 1;
                process.receive(now, from, message, out);
            }
            Input::Timer(timer) => {
                trace.add(at, id, What::Expire, format_args!("{timer:?}"));
                process.expire(now, timer, out);
            }
            Input::Request(request) => {
                trace.add(at, id, What::Request, format_args!("{request:?}"));
                if let Some(program) = node.program {
                    self.programs[program].is_served();
                }
                process.request(now, request, out);
            }
            Input::Durable(lsn) => {
                trace.add(at, id, What::Durable, format_args!("{}", lsn.0));
                process.durable(now, lsn, out);
            }
            Input::Disconnected(peer) => {
                trace.add(at, id, What::Disconnect, format_args!("{peer}"));
                process.disconnected(now, peer, out);
            }
            Input::Wake { program, turn } => {
                self.wake(program, turn);
                return;
            }
        }
        counts.steps += 1;
        if !node.out.is_empty() {
            self.carry_out(id);
        }
        for (every, check) in &mut self.invariants {
            if self.counts.steps.is_multiple_of(*every)
                && let Err(wrong) = check(&Processes(&self.nodes))
            {
                panic!("at {at}, after a step of {id}: {wrong}");
            }
        }
    }

    /// Does what a process wants done.
    fn carry_out(&mut self, id: NodeId) {
        let at = self.now;
        let (trace, counts, wheel, network) =
            (&mut self.trace, &mut self.counts, &mut self.wheel, &mut self.network);
        let Some(node) = self.nodes[id.0 as usize].as_deref_mut() else { return };
        node.messages += (node.out.sends.len() + node.out.multicasts.len()) as u64;
        let mut sender = Sender { id, at, leaves: at };
        for (to, message) in node.out.sends.drain(..) {
            sender.leaves = sender.leaves + node.departure.sample(&mut self.random);
            transmit(sender, to, message, network, wheel, trace, counts);
        }
        for (set, message) in node.out.multicasts.drain(..) {
            sender.leaves = sender.leaves + node.departure.sample(&mut self.random);
            for index in 0..network.members(set).len() {
                let to = network.members(set)[index];
                transmit(sender, to, message.clone(), network, wheel, trace, counts);
            }
        }
        if sender.leaves > at {
            node.sending = true;
            wheel.insert(sender.leaves, Happening::Departed { node: id, incarnation: node.incarnation });
        }
        for (timer, change) in node.out.timers.drain(..) {
            let TimerChange::Set(deadline) = change else {
                if let Some(alarm) = node.alarms.remove(&timer) {
                    wheel.remove(alarm.key);
                }
                continue;
            };
            let when = node.clock.when(deadline).max(at);
            match node.alarms.get_mut(&timer) {
                // Most timers are put off again and again, which costs nothing.
                Some(alarm) if alarm.at <= when => alarm.deadline = deadline,
                earlier => {
                    if let Some(alarm) = earlier {
                        wheel.remove(alarm.key);
                    }
                    let alarm = Happening::Alarm { node: id, incarnation: node.incarnation, timer };
                    let key = wheel.insert(when, alarm);
                    node.alarms.insert(timer, Alarm { key, at: when, deadline });
                }
            }
        }
        if node.disk.tears && node.out.records.len() > 1 {
            wheel.insert(
                at,
                Happening::Action(Box::new(move |sim| {
                    if sim.node(id).disk.tears {
                        sim.crash(id);
                    }
                })),
            );
        }
        for record in &node.out.records {
            counts.records += 1;
            trace.add(at, id, What::Record, format_args!("{record:?}"));
            node.disk.log.push(record.clone());
        }
        for event in node.out.events.drain(..) {
            counts.events += 1;
            trace.add(at, id, What::Event, format_args!("{event:?}"));
            match node.program {
                None => self.events.push_back((id, event)),
                Some(program) => {
                    if let Some(turn) = self.programs[program].hear(event) {
                        wheel.insert(at, Happening::Wake { program, turn });
                    }
                }
            }
        }
        node.out.clear();
        self.sync(id);
    }

    /// Starts to make durable what is not, unless the disk is at it.
    fn sync(&mut self, id: NodeId) {
        let now = self.now;
        let Some(node) = self.nodes[id.0 as usize].as_deref_mut() else { return };
        let (disk, incarnation) = (&mut node.disk, node.incarnation);
        let upto = disk.log.len();
        if upto > disk.durable && !disk.syncing {
            disk.syncing = true;
            let takes = disk.sync.sample(&mut self.random) + disk.slowness.sample(&mut self.random);
            let done = now + takes;
            self.wheel.insert(done, Happening::Synced { node: id, incarnation, upto });
        }
    }

    fn synced(&mut self, id: NodeId, incarnation: u32, upto: usize) {
        let node = self.node_mut(id);
        if node.incarnation != incarnation {
            return;
        }
        node.disk.syncing = false;
        if node.disk.broken {
            self.crash(id);
            return;
        }
        node.disk.durable = upto;
        self.counts.syncs += 1;
        self.sync(id);
        self.admit(id, Input::Durable(Lsn(upto as u64)));
    }
}

/// Who sends, when it has decided to, and when what it sends leaves.
#[derive(Clone, Copy)]
struct Sender {
    id: NodeId,
    at: Time,
    leaves: Time,
}

fn transmit<P: Simulated>(
    Sender { id: from, at, leaves }: Sender,
    to: NodeId,
    message: P::Message,
    network: &mut Network,
    wheel: &mut Wheel<Happening<P>>,
    trace: &mut Trace,
    counts: &mut Counts,
) {
    counts.sent += 1;
    let fate = network.fate(from, to, counts);
    let what = match fate {
        Fate::Once(_) => What::Send,
        Fate::Twice(..) => What::Twice,
        Fate::Lost => What::Lost,
        Fate::Cut => What::Cut,
    };
    trace.add(at, from, what, format_args!("to n{} {message:?}", to.0));
    let leaves = network.leaves(from, to, leaves);
    match fate {
        Fate::Once(delay) => {
            wheel.insert(leaves + delay, Happening::Arrival { from, to, message });
        }
        Fate::Twice(delay, again) => {
            let copy = message.clone();
            wheel.insert(leaves + delay, Happening::Arrival { from, to, message });
            wheel.insert(leaves + again, Happening::Arrival { from, to, message: copy });
        }
        Fate::Lost | Fate::Cut => {}
    }
}
