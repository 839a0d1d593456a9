//! A node: a process, and the machine it runs on.

use crate::clock::Clock;
use crate::wheel::Key;
use crate::{Delay, Simulated};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a process, or a program on its node, is told.
pub(crate) enum Input<P: Process> {
    Start,
    Message { from: NodeId, message: P::Message },
    Timer(P::Timer),
    Request(P::Request),
    Durable(Lsn),
    Disconnected(NodeId),
    Wake { program: usize, turn: u64 },
}

#[derive(Clone, Copy)]
pub(crate) struct Alarm {
    pub(crate) key: Key,
    /// When the wheel tells of it: by the deadline, or before it if that was put off.
    pub(crate) at: Time,
    /// By the node's clock.
    pub(crate) deadline: Time,
}

/// The log of a node. Outlives its processes.
pub(crate) struct Disk<R> {
    pub(crate) sync: Delay,
    /// What a sync takes on top.
    pub(crate) slowness: Delay,
    pub(crate) log: Vec<R>,
    /// So many records of the log survive a crash.
    pub(crate) durable: usize,
    pub(crate) syncing: bool,
    pub(crate) broken: bool,
    /// The next step with several records is its last.
    pub(crate) tears: bool,
}

/// How long each message keeps a node busy.
pub(crate) type Service<M> = Box<dyn Fn(&M) -> Delay>;

pub(crate) struct Node<P: Process> {
    /// Nothing while the node is down.
    pub(crate) process: Option<P>,
    pub(crate) out: Outbox<P>,
    /// How often the node has gone down: what was meant for an earlier process is not for this one.
    pub(crate) incarnation: u32,
    pub(crate) alarms: BTreeMap<P::Timer, Alarm>,
    /// What waits because the node is paused or busy. The first is in work while `serving`.
    pub(crate) inbox: VecDeque<Input<P>>,
    pub(crate) serving: bool,
    /// What it has sent is leaving: it does nothing else until that is done. Never while `serving`.
    pub(crate) sending: bool,
    pub(crate) paused: bool,
    /// While the process is down its machine is there, and says so to who wants to connect.
    pub(crate) refuses: bool,
    /// How long a message keeps it busy; nothing if it takes no time.
    pub(crate) service: Option<Service<P::Message>>,
    /// How long each message that it sends keeps it busy.
    pub(crate) departure: Delay,
    /// How many messages it has received or sent.
    pub(crate) messages: u64,
    pub(crate) clock: Clock,
    pub(crate) disk: Disk<P::Record>,
    /// The program that is told its events.
    pub(crate) program: Option<usize>,
}

impl<P: Process> Node<P> {
    pub(crate) fn new() -> Self {
        let (median, p99) = (Duration::from_micros(200), Duration::from_millis(2));
        Self {
            process: None,
            out: Outbox::default(),
            incarnation: 0,
            alarms: BTreeMap::new(),
            inbox: VecDeque::new(),
            serving: false,
            sending: false,
            paused: false,
            refuses: false,
            service: None,
            departure: Delay::ZERO,
            messages: 0,
            clock: Clock::default(),
            disk: Disk {
                sync: Delay::Tailed { median, p99 },
                slowness: Delay::ZERO,
                log: Vec::new(),
                durable: 0,
                syncing: false,
                broken: false,
                tears: false,
            },
            program: None,
        }
    }
}

/// The live processes of a simulation, by node.
pub struct Processes<'a, P: Process>(pub(crate) &'a [Option<Box<Node<P>>>]);

impl<'a, P: Simulated> Processes<'a, P> {
    /// The process of a node that is up.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&'a P> {
        self.0.get(node.0 as usize)?.as_deref()?.process.as_ref()
    }

    /// All that are up, in the order of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &'a P)> + use<'a, P> {
        (0..).map(NodeId).zip(self.0).filter_map(|(id, node)| Some((id, node.as_deref()?.process.as_ref()?)))
    }
}
