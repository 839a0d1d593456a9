//! Servers with service times, and clients that run programs.

use fulmar_cluster::{
    Ask, Call, Client, Event, Map, Message, NodeId, Protocol, Question, Remote, Replication, Reply, Server,
    ShardOptions, Synced, Timer, Transient, Unreachable,
};
use fulmar_dbt::{Database, Tree};
use fulmar_locks::Mutex;
use fulmar_node::{Lsn, Outbox, Process, Time};
use fulmar_sim::{Delay, Link, Port, Sim};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Keeps the clock and the map.
const MANAGER: NodeId = NodeId(0);
/// How long servers may take to find each other.
const MEETING: Duration = Duration::from_secs(60);

/// How long a message is on its way: half of them at most the median.
const LATENCY: Delay = Delay::Tailed { median: Duration::from_micros(10), p99: Duration::from_micros(30) };

/// Processor time of a server for what it receives, with all that follows from it, on average.
/// `docs/scaling.md` says how it was measured.
pub(super) mod cost {
    use std::time::Duration;

    /// A read, and its answer.
    pub(in crate::scaling) const READ: Duration = Duration::from_nanos(5_700);
    /// A change, and its answer.
    pub(in crate::scaling) const UPDATE: Duration = Duration::from_nanos(10_200);
    /// The end of a snapshot, which comes in one packet with the next question.
    pub(in crate::scaling) const CLOSE: Duration = Duration::from_nanos(300);
    /// Another server's question for the time, and the answer.
    pub(in crate::scaling) const CLOCK: Duration = Duration::from_nanos(4_500);
    /// The time, and the question for it.
    pub(in crate::scaling) const TIME: Duration = Duration::from_nanos(4_500);
    /// What replicas say to each other; taken to be as much.
    pub(in crate::scaling) const REPLICATION: Duration = Duration::from_nanos(4_500);
}

fn cost(message: &Message) -> Duration {
    match message {
        Message::Question { question: Question::Read { .. }, .. } => cost::READ,
        Message::Question { .. } => cost::UPDATE,
        Message::SnapshotClosed(_) => cost::CLOSE,
        Message::Time { .. } => cost::TIME,
        Message::Replication { .. } => cost::REPLICATION,
        _ => cost::CLOCK,
    }
}

/// What a node is.
pub(crate) enum Role {
    Server(Box<Busy>),
    Client(Box<Client>),
}

/// A server, and how busy it has been.
pub(crate) struct Busy {
    server: Server,
    work: Work,
    /// Its last question for the time that is not answered, and when it was asked.
    clock_asked: Option<Time>,
}

/// What a server has done.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) busy: Duration,
    /// Answers to questions for the time, and how long they took.
    pub(super) times: u32,
    pub(super) time_waits: Duration,
}

impl Work {
    /// What was done since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy - earlier.busy,
            times: self.times - earlier.times,
            time_waits: self.time_waits - earlier.time_waits,
        }
    }
}

/// When a node does something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alarm {
    Server(Timer),
    Client,
}

impl Process for Role {
    type Message = Message;
    type Timer = Alarm;
    type Request = Ask;
    type Event = Reply;
    type Record = Synced;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        if let Self::Server(busy) = self {
            busy.step(now, out, |server, out| server.start(now, out));
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match self {
            Self::Server(busy) => {
                busy.note(now, &message);
                busy.step(now, out, |server, out| server.receive(now, from, message, out));
            }
            Self::Client(client) => as_client(out, |out| client.receive(now, from, message, out)),
        }
    }

    fn expire(&mut self, now: Time, timer: Alarm, out: &mut Outbox<Self>) {
        match (self, timer) {
            (Self::Server(busy), Alarm::Server(timer)) => {
                busy.step(now, out, |server, out| server.expire(now, timer, out));
            }
            (Self::Client(client), _) => as_client(out, |out| client.expire(now, (), out)),
            (Self::Server(_), Alarm::Client) => {}
        }
    }

    fn request(&mut self, now: Time, ask: Ask, out: &mut Outbox<Self>) {
        if let Self::Client(client) = self {
            as_client(out, |out| client.request(now, ask, out));
        }
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        if let Self::Server(busy) = self {
            busy.step(now, out, |server, out| server.durable(now, upto, out));
        }
    }
}

impl Busy {
    fn note(&mut self, now: Time, message: &Message) {
        self.work.busy += cost(message);
        if let Message::Time { .. } = message
            && let Some(asked) = self.clock_asked.take()
        {
            self.work.times += 1;
            self.work.time_waits += now.since(asked);
        }
    }

    fn step(
        &mut self,
        now: Time,
        out: &mut Outbox<Role>,
        step: impl FnOnce(&mut Server, &mut Outbox<Server>),
    ) {
        let before = out.sends.len();
        let server = &mut self.server;
        let reached = |own: &mut Outbox<Server>| {
            step(server, own);
            for event in std::mem::take(&mut own.events) {
                if let Event::Joining(joining) = event {
                    server.request(now, joining, own);
                }
            }
            // Operators read the others.
            own.events.clear();
        };
        let nothing = |event| unreachable!("all were taken: {event:?}");
        out.take_over(reached, Alarm::Server, nothing, |record| record);
        if out.sends[before..].iter().any(|(_, message)| matches!(message, Message::Clock { .. })) {
            self.clock_asked = Some(now);
        }
    }
}

fn as_client(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Client>)) {
    out.take_over(step, |()| Alarm::Client, |reply| reply, |()| unreachable!("clients remember nothing"));
}

/// So many servers that know each other, with their databases in memory; nothing if they do not find each other.
pub(crate) fn cluster(seed: u64, servers: u32, replication: Replication) -> Option<Sim<Role>> {
    let mut sim = Sim::new(seed, move |id, _: &[Synced]| {
        if id.0 >= servers {
            return Role::Client(Box::new(Client::new(
                id.0.into(),
                "ycsb".try_into().expect("a good name"),
                true,
            )));
        }
        let databases = Box::new(Transient::new(ShardOptions::default()));
        let address = id.to_string();
        let server = match id {
            MANAGER => Server::first((id, &address), databases, replication).expect("records in memory"),
            _ => Server::member((id, &address), databases, Map::of(MANAGER, &MANAGER.to_string())),
        };
        Role::Server(Box::new(Busy { server, work: Work::default(), clock_asked: None }))
    });
    sim.network.link = Link { latency: LATENCY, ..Link::default() };
    (0..servers).map(NodeId).for_each(|server| sim.add(server));
    let knows_all = |role: Option<&Role>| match role {
        Some(Role::Server(busy)) => busy.server.map().servers.len() == servers as usize,
        _ => false,
    };
    let all_know = |sim: &Sim<Role>| (0..servers).all(|server| knows_all(sim.process(NodeId(server))));
    sim.run_until(MEETING, |_, _, _| {}, all_know).then_some(sim)
}

/// From now on what servers receive takes its time.
pub(crate) fn begin_service(sim: &mut Sim<Role>, servers: u32) {
    for server in 0..servers {
        sim.set_service_by(NodeId(server), |message| {
            let mean = cost(message);
            Delay::Uniform { low: mean / 2, high: mean * 3 / 2 }
        });
    }
}

/// How the replicas of a tree's shard agree, as the map says; nothing, if there is one server.
pub(crate) fn protocol(sim: &Sim<Role>, tree: Tree) -> Option<Protocol> {
    let Some(Role::Server(busy)) = sim.process(MANAGER) else { return None };
    let mut databases = busy.server.map().databases.values();
    let replicas = databases.next()?.replicated.get(&tree.root().shard())?;
    Some(replicas.group.as_ref().map_or(replicas.protocol, |group| group.protocol()))
}

/// What each server has done.
pub(super) fn work(sim: &Sim<Role>, servers: u32) -> Vec<Work> {
    let work = |server| match sim.process(NodeId(server)) {
        Some(Role::Server(busy)) => busy.work,
        _ => Work::default(),
    };
    (0..servers).map(work).collect()
}

/// A program's way to its client.
pub(crate) type Line = Arc<Mutex<Port<Role>>>;

/// The database, for a program.
pub(crate) fn connect(line: &Line) -> Database {
    // Nothing crashes here.
    let _ = line.lock().request(Ask::Server(MANAGER));
    Database::remote(Arc::new(Remote::new(Path::new("ycsb"), Caller(line.clone()))))
}

struct Caller(Line);

impl Call for Caller {
    fn call(&mut self, ask: Ask) -> Result<Reply, Unreachable> {
        self.0.lock().call(ask).map_err(|error| Unreachable(error.to_string()))
    }

    fn tell(&mut self, ask: Ask) {
        // Nothing crashes here.
        let _ = self.0.lock().request(ask);
    }
}
