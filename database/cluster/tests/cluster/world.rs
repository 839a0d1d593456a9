//! Servers with disks, and clients that run programs.

use fulmar_cluster::replicated::{self, Left};
use fulmar_cluster::{
    Answer, Ask, Call, Client, Cluster, DatabaseName, DatabaseNumber, Event, Map, MapRequest, Message, Open,
    PeerMessage, Question, Remote, Replication, Reply, Server, ShardOptions, Sight, Synced, Timer,
    Unreachable,
};
use fulmar_dbt::{Database, Options, Reshape, Shape, Transaction, Tree};
use fulmar_kv::engine::{Batch, Engine, EngineWrite, Memory};
use fulmar_kv::{Commit, Durability, Error, Object, ObjectId, Outcome, Restructuring, ShardId, linked};
use fulmar_locks::Mutex;
use fulmar_node::{Lsn, NodeId, Outbox, Process, Random, Time};
use fulmar_replication::Protocol;
use fulmar_sim::{Faults, Port, Seed, Sim};
use fulmar_transport::Wire;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How many servers there are, if no shard has more replicas; the first keeps the clock and the map.
pub(crate) const SERVERS: u32 = 3;
/// Clients are named from here on.
pub(crate) const CLIENTS_BEGIN: u32 = 100;
pub(crate) const MANAGER: NodeId = NodeId(0);
/// A server that is not there from the beginning.
pub(crate) const LATE: NodeId = NodeId(1_000);

/// Clients from this one on have a database each.
pub(crate) const LONERS: NodeId = NodeId(500);

pub(crate) fn servers() -> impl Iterator<Item = NodeId> {
    (0..SERVERS).map(NodeId)
}

/// Those of a world in which there may be more.
pub(crate) fn servers_of(sim: &Sim<Role>) -> Vec<NodeId> {
    sim.nodes().filter(|node| node.0 < CLIENTS_BEGIN).collect()
}

/// What a node is.
pub(crate) enum Role {
    Server(Box<Server>, Defect, Connections),
    Client(Box<Client>, Defect),
}

/// What a server calls the clients that it hears: each by another name on each connection.
#[derive(Default)]
pub(crate) struct Connections(BTreeMap<NodeId, u32>);

impl Connections {
    /// Names of clients on connections begin here.
    const FIRST: u32 = 1 << 31;

    fn is_client(node: NodeId) -> bool {
        node.0 >= CLIENTS_BEGIN && node != LATE
    }

    fn named(&self, node: NodeId) -> NodeId {
        if !Self::is_client(node) {
            return node;
        }
        let count = self.0.get(&node).copied().unwrap_or_default();
        NodeId(Self::FIRST | node.0 << 16 | count)
    }

    /// The connection with a client or another server has ended; answers what it was called.
    fn end(&mut self, node: NodeId) -> NodeId {
        let named = self.named(node);
        *self.0.entry(node).or_default() += 1;
        named
    }

    /// Has what a server says to clients go to those that are still connected.
    fn route(&self, sends: &mut Vec<(NodeId, Message)>) {
        sends.retain_mut(|(to, _)| {
            if to.0 < Self::FIRST {
                return true;
            }
            let (named, client) = (*to, NodeId((to.0 & !Self::FIRST) >> 16));
            *to = client;
            self.named(client) == named
        });
    }
}

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    Nothing,
    /// What a leaf does not hold is taken not to exist.
    NoFences,
    /// Crashed servers forget which transactions they have prepared and decided.
    LostRecords,
    /// After its first read a transaction reads a later snapshot.
    LateTimestamp,
    /// Servers take the clock to be further than it is.
    FastClock,
    /// Who reads nothing else, reads more.
    OnlyReads,
    /// Servers do not care whether the map has changed by the time of which they hear.
    OldMap,
    /// Who has kept the clock takes it that the replicas of that follow for ever.
    NoQuorum,
    /// Who is asked about a transaction that it has not prepared says that it will not take place, and forgets that.
    Forgetful,
    /// Who is asked for a decision again says that it is made, whatever the replicas know of it.
    Eager,
    /// Who decides tells the other shards before its disk holds the decision.
    Hasty,
    /// Who prepares says so before its disk holds that.
    Careless,
}

impl Defect {
    /// A message as a server with the defect takes it.
    fn at_server(self, mut message: Message) -> Message {
        if self == Self::FastClock
            && let Message::Time { reached, .. } = &mut message
        {
            reached.0 += 300;
        }
        if self == Self::OldMap
            && let Message::Time { map, .. } = &mut message
        {
            *map = 0;
        }
        if self == Self::LateTimestamp
            && let Message::Question { question: Question::Read { at: Sight::Open(at), .. }, .. } =
                &mut message
        {
            at.0 += 3;
        }
        message
    }

    /// What a server with the defect says to a message, which it then forgets.
    fn forgets(self, server: &Server, message: &Message) -> Option<Message> {
        if let Message::Question { number, again: true, question: Question::Decide(_, at, _), .. } = message {
            return (self == Self::Eager)
                .then_some(Message::Answer { number: *number, answer: Answer::At(*at) });
        }
        let Message::Transaction { database, shard, from, transaction, said: PeerMessage::Asked { .. } } =
            message
        else {
            return None;
        };
        let kv = server.databases().find(|kv| kv.shard() == *shard)?;
        let (database, shard, from, transaction) = (*database, *from, *shard, *transaction);
        let said = PeerMessage::Ended(Outcome::Aborted);
        let said = Message::Transaction { database, shard, from, transaction, said };
        (self == Self::Forgetful && kv.is_settled()).then_some(said)
    }

    /// What a server with the defect tells other shards of a decision that it is asked for.
    fn hastens(self, message: &Message) -> Vec<(NodeId, Message)> {
        let Message::Question {
            database, shard: from, question: Question::Decide(transaction, at, _), ..
        } = message
        else {
            return Vec::new();
        };
        let (database, from, transaction) = (*database, *from, *transaction);
        let others = (0..SERVERS).filter(|other| self == Self::Hasty && *other != u32::from(from.0));
        let tell = |other| {
            let (shard, said) =
                (ShardId(u16::try_from(other).unwrap()), PeerMessage::Ended(Outcome::Committed(*at)));
            (NodeId(other), Message::Transaction { database, shard, from, transaction, said })
        };
        others.map(tell).collect()
    }

    /// Whether a server with the defect takes what it notes at this message to be on its disk at once.
    fn takes_as_durable(self, message: &Message) -> bool {
        self == Self::Careless && matches!(message, Message::Question { question: Question::Prepare(_), .. })
    }

    /// What a server with the defect takes others to have answered to what it has sent.
    fn answers(self, sends: &[(NodeId, Message)]) -> Vec<(NodeId, Message)> {
        let answer = |(to, message): &(NodeId, Message)| {
            let Message::Replication { database, shard, message } = message else { return None };
            let fulmar_replication::Message::Commit { view, committed, summary, round } = **message else {
                return None;
            };
            let same = fulmar_replication::Message::PrepareOk {
                view,
                ordered: committed,
                upto: committed,
                summary,
                round,
            };
            let is_clocks = *database == DatabaseNumber(u32::MAX);
            let said = Message::Replication { database: *database, shard: *shard, message: Box::new(same) };
            is_clocks.then_some((*to, said))
        };
        sends.iter().filter(|_| self == Self::NoQuorum).filter_map(answer).collect()
    }

    /// A message as a client with the defect takes it.
    fn at_client(self, message: Message) -> Message {
        match message {
            Message::Answer { number, answer: Answer::Nothing } if self == Self::NoFences => {
                Message::Answer { number, answer: Answer::Object(empty_leaf()) }
            }
            message => message,
        }
    }

    /// What a server with the defect finds on its disk.
    fn on_disk(self, batch: &Batch) -> Batch {
        let mut batch = batch.clone();
        if self == Self::LostRecords {
            let is_record = |object: ObjectId| object.number() == (1 << 32) - 1;
            batch
                .writes
                .retain(|write| !matches!(write, EngineWrite::Put { object, .. } if is_record(*object)));
        }
        batch
    }
}

/// A leaf for all keys that holds none.
fn empty_leaf() -> Arc<Object> {
    let kv = fulmar_kv::Database::transient(&Options::default()).unwrap();
    let object = ObjectId(7);
    let restructurings = vec![Restructuring::Create { object }];
    kv.commit(Commit { restructurings, ..Commit::default() }, Durability::Written).unwrap();
    kv.read(object).unwrap().unwrap()
}

/// When a node does something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alarm {
    Server(Timer),
    Client,
}

/// What a node is told.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Ask(Ask),
    Reshape(Reshape),
    /// To hold nothing any more.
    Drain(NodeId),
    /// To have others lead what it leads; and to tell whether they do.
    Retire(Arc<AtomicBool>),
}

impl Process for Role {
    type Message = Message;
    type Timer = Alarm;
    type Request = Wish;
    type Event = Reply;
    type Record = Synced;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        if let Self::Server(server, ..) = self {
            as_server(out, |out| server.start(now, out));
        }
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match self {
            Self::Server(server, defect, connections) => {
                if let Some(said) = defect.forgets(server, &message) {
                    return out.send(from, said);
                }
                let message = defect.at_server(message);
                out.sends.extend(defect.hastens(&message));
                let is_taken_as_durable = defect.takes_as_durable(&message);
                as_server(out, |out| {
                    server.receive(now, connections.named(from), message, out);
                    if is_taken_as_durable {
                        server.durable(now, out.logged(), out);
                    }
                    // Whoever says where it is can be reached there.
                    for event in std::mem::take(&mut out.events) {
                        if let Event::Joining(joining) = event {
                            server.request(now, joining, out);
                        }
                    }
                });
                hear_answers(server, *defect, now, out);
                connections.route(&mut out.sends);
            }
            Self::Client(client, defect) => {
                let message = defect.at_client(message);
                as_client(out, |out| client.receive(now, from, message, out));
            }
        }
    }

    fn expire(&mut self, now: Time, timer: Alarm, out: &mut Outbox<Self>) {
        match (self, timer) {
            (Self::Server(server, defect, connections), Alarm::Server(timer)) => {
                as_server(out, |out| server.expire(now, timer, out));
                hear_answers(server, *defect, now, out);
                connections.route(&mut out.sends);
            }
            (Self::Client(client, _), Alarm::Client) => as_client(out, |out| client.expire(now, (), out)),
            _ => panic!("not for this one"),
        }
    }

    fn request(&mut self, now: Time, wish: Wish, out: &mut Outbox<Self>) {
        match (self, wish) {
            (Self::Client(client, _), Wish::Ask(ask)) => as_client(out, |out| client.request(now, ask, out)),
            (Self::Server(server, _, connections), wish) => {
                let step = |out: &mut Outbox<Server>| match wish {
                    Wish::Reshape(reshape) => {
                        let message = Message::Reshape { database: DatabaseNumber(0), reshape };
                        server.receive(now, MANAGER, message, out);
                    }
                    Wish::Drain(drained) => {
                        let message = Message::Ask(MapRequest::Drain(drained.to_string()));
                        server.receive(now, drained, message, out);
                    }
                    Wish::Retire(has_retired) => has_retired.store(server.retire(now, out), Relaxed),
                    Wish::Ask(_) => panic!("not for a server"),
                };
                as_server(out, step);
                connections.route(&mut out.sends);
            }
            _ => panic!("not for this one"),
        }
    }

    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        match self {
            Self::Server(server, _, connections) => {
                let named = connections.end(peer);
                as_server(out, |out| server.disconnected(now, named, out));
                connections.route(&mut out.sends);
            }
            Self::Client(client, _) => as_client(out, |out| client.disconnected(now, peer, out)),
        }
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        if let Self::Server(server, _, connections) = self {
            as_server(out, |out| server.durable(now, upto, out));
            connections.route(&mut out.sends);
        }
    }
}

/// A server with a defect hears what it takes others to say.
fn hear_answers(server: &mut Server, defect: Defect, now: Time, out: &mut Outbox<Role>) {
    for (from, message) in defect.answers(&out.sends) {
        as_server(out, |out| server.receive(now, from, message, out));
    }
}

/// Longer is no message among replicas: large operations go in parts, and logs in several messages.
const LONGEST: usize = (1 << 20) + (64 << 10);

fn as_server(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Server>)) {
    let said = |out: &mut Outbox<Server>| {
        step(out);
        // Operators read the others.
        out.events.retain(|event| matches!(event, Event::Joining(_)));
        for (_, message) in &out.sends {
            let Message::Replication { message, .. } = message else { continue };
            let mut encoded = Vec::new();
            message.encode(&mut encoded);
            assert!(encoded.len() <= LONGEST, "a message of {} bytes among replicas", encoded.len());
        }
    };
    let nothing = |joining| unreachable!("nobody has said that it joins: {joining:?}");
    out.take_over(said, Alarm::Server, nothing, |record| record);
}

fn as_client(out: &mut Outbox<Role>, step: impl FnOnce(&mut Outbox<Client>)) {
    out.take_over(step, |()| Alarm::Client, |reply| reply, |()| unreachable!("clients remember nothing"));
}

/// What was handed to disks, by server and database, batch by batch, each with how much was handed with it.
#[derive(Clone, Default)]
pub(crate) struct Disks(Arc<Mutex<BTreeMap<PathBuf, Disk>>>, Arc<Mutex<Known>>);

/// What servers remember of each other, and those that forgot it.
#[derive(Default)]
struct Known {
    servers: BTreeMap<NodeId, Vec<u8>>,
    wiped: BTreeSet<NodeId>,
    /// How often servers have opened each.
    opened: BTreeMap<PathBuf, usize>,
    /// Whether their replicas make checkpoints after few operations, and copy their state in small parts.
    is_hurried: bool,
    /// Whether servers' disks are full.
    full: BTreeMap<NodeId, Arc<AtomicBool>>,
    /// Whether the cluster's own records find no room there either.
    fills_records: bool,
}

#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Vec<(u64, Batch)>>>);

/// What the directory of a shard's replica is called.
const REPLICA: &str = "replica of ";

impl Disks {
    /// Of servers whose replicas make a checkpoint after few operations, and copy their state in small parts: so in a short run there
    /// are many of both.
    pub(crate) fn hurried() -> Self {
        let disks = Self::default();
        disks.1.lock().is_hurried = true;
        disks
    }

    fn get(&self, name: &Path) -> Disk {
        self.0.lock().entry(name.into()).or_default().clone()
    }

    fn remove(&self, name: &Path) {
        self.0.lock().remove(name);
    }

    /// Forgets all that a server has ever written.
    pub(crate) fn wipe(&self, server: NodeId) {
        self.0.lock().retain(|name, _| !name.starts_with(server.to_string()));
        self.1.lock().servers.remove(&server);
        self.1.lock().wiped.insert(server);
    }

    /// How often servers have opened each whose name has this in it.
    pub(crate) fn opened(&self, name: &str) -> Vec<usize> {
        let known = self.1.lock();
        let of = known.opened.iter().filter(|(opened, _)| opened.to_string_lossy().contains(name));
        of.map(|(_, count)| *count).collect()
    }

    fn open(&self, name: &Path) -> Disk {
        *self.1.lock().opened.entry(name.into()).or_default() += 1;
        self.get(name)
    }

    /// Of servers that can write nothing of the cluster's own records either when their disk is full.
    pub(crate) fn of_all() -> Self {
        let disks = Self::default();
        disks.1.lock().fills_records = true;
        disks
    }

    /// Whether the server's disk is full: nothing of its shards and replicas can be written there then, nor synced.
    pub(crate) fn full(&self, server: NodeId) -> Arc<AtomicBool> {
        Arc::clone(self.1.lock().full.entry(server).or_default())
    }

    /// Loses all that a server's replicas hold, but for what they have written down of themselves.
    pub(crate) fn lose_objects(&self, server: NodeId) {
        let is_object =
            |write: &EngineWrite| matches!(write, EngineWrite::Put { object, .. } if object.0 < u64::MAX);
        for (name, disk) in self.0.lock().iter().filter(|(name, _)| name.starts_with(server.to_string())) {
            if name.to_string_lossy().contains(REPLICA) {
                disk.0
                    .lock()
                    .iter_mut()
                    .for_each(|(_, batch)| batch.writes.retain(|write| !is_object(write)));
            }
        }
    }

    /// What differs among the replicas of any shard, on disks that nobody writes to any more.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut shards = BTreeMap::<String, Vec<Left>>::new();
        let disks = self.0.lock().clone();
        for (path, disk) in &disks {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if let Some(shard) = name.strip_prefix(REPLICA) {
                let engine = disk.engine(Defect::Nothing);
                let left = Left::open(path, Arc::new(engine)).expect("a sound disk");
                shards.entry(shard.into()).or_default().extend(left);
            }
        }
        let of = |(shard, replicas)| {
            let found = replicated::differences(replicas).expect("memory");
            found.into_iter().map(move |difference| format!("replicas of {shard}: {difference}"))
        };
        shards.into_iter().flat_map(of).collect()
    }

    /// A server that is already there, or was when this one began.
    fn known(&self, server: NodeId) -> NodeId {
        match server {
            MANAGER => NodeId(1),
            NodeId(1) if self.1.lock().wiped.contains(&MANAGER) => NodeId(2),
            _ if self.1.lock().wiped.contains(&MANAGER) => NodeId(1),
            _ => MANAGER,
        }
    }

    /// Forgets what a server has not synced.
    fn crash(&self, server: NodeId, records: &[Synced]) {
        let synced = synced(records);
        for (name, disk) in self.0.lock().iter().filter(|(name, _)| name.starts_with(server.to_string())) {
            let synced = synced.get(&**name).copied().unwrap_or(0);
            disk.0.lock().retain(|(sequence, _)| *sequence <= synced);
        }
    }
}

/// Up to where each engine was synced.
fn synced(records: &[Synced]) -> BTreeMap<&Path, u64> {
    records.iter().map(|record| (record.path(), record.sequence())).collect()
}

impl Disk {
    /// What came later than this is not synced, whatever is said of it.
    fn lose_after(&self, last: u64) {
        let mut batches = self.0.lock();
        batches.iter_mut().filter(|(sequence, _)| *sequence > last).for_each(|(s, _)| *s = u64::MAX);
    }

    fn engine(&self, defect: Defect) -> Recorded {
        let memory = Memory::default();
        for (_, batch) in self.0.lock().iter() {
            memory.write(defect.on_disk(batch)).unwrap();
        }
        Recorded { memory, disk: self.clone(), is_full: Arc::default() }
    }
}

/// An engine on a [`Disk`].
struct Recorded {
    memory: Memory,
    disk: Disk,
    is_full: Arc<AtomicBool>,
}

impl Recorded {
    fn require_room(&self) -> Result<(), Error> {
        if self.is_full.load(Relaxed) {
            return Err(Error::Io { path: "disk".into(), source: io::ErrorKind::StorageFull.into() });
        }
        Ok(())
    }
}

impl Engine for Recorded {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.require_room()?;
        let fact = |wanted: &str| {
            batch.writes.iter().rev().find_map(|write| match write {
                EngineWrite::Fact { name, value } if *name == wanted => Some(&**value),
                _ => None,
            })
        };
        // A replica counts what it writes.
        let sequence = match fact("written") {
            Some(written) => u64::from_be_bytes(written.try_into().unwrap()),
            None => second_varint(fact("state").expect("a state in each batch")),
        };
        self.disk.0.lock().push((sequence, batch.clone()));
        self.memory.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        self.require_room()?;
        // What no record stands for, and no crash takes.
        self.disk.0.lock().iter_mut().for_each(|(sequence, _)| *sequence = 0);
        Ok(())
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.memory.load(object, visit)
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.memory.next(from)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.memory.fact(name)
    }
}

fn second_varint(bytes: &[u8]) -> u64 {
    let first = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number");
    let mut n = 0;
    for (place, byte) in bytes[first + 1..].iter().enumerate() {
        n |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    n
}

/// The name of a database.
pub(crate) fn named(name: &str) -> DatabaseName {
    name.try_into().expect("a good name")
}

/// The databases of a server.
struct Databases(NodeId, Disks, Defect);

impl Databases {
    fn name(&self, name: &str, shard: ShardId) -> PathBuf {
        format!("{}/{name}.{}", self.0, shard.0).into()
    }

    /// An engine on a disk that may be full. As with the real one, what is found in it is counted on from now on.
    fn recorded(&self, path: &Path) -> Result<Recorded, Error> {
        let engine = self.1.open(path).engine(self.2);
        engine.sync()?;
        Ok(Recorded { is_full: self.1.full(self.0), ..engine })
    }
}

impl Open for Databases {
    fn exists(&mut self, _name: &DatabaseName) -> Result<bool, Error> {
        Ok(false)
    }

    fn open(&mut self, name: &DatabaseName, shard: ShardId) -> Result<fulmar_kv::Database, Error> {
        let options = Options { shard, ..self.options().storage };
        let path = self.name(name, shard);
        fulmar_kv::Database::with_engine(&path, Box::new(self.recorded(&path)?), &options)
    }

    fn arrive(&mut self, name: &DatabaseName, shard: ShardId) -> Result<fulmar_kv::Database, Error> {
        self.discard(name, shard)?;
        self.open(name, shard)
    }

    fn discard(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(), Error> {
        self.1.remove(&self.name(name, shard));
        Ok(())
    }

    fn engine(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(PathBuf, Arc<dyn Engine>), Error> {
        let name = self.name(&format!("{REPLICA}{name}"), shard);
        let engine = self.recorded(&name)?;
        Ok((name, Arc::new(engine)))
    }

    fn options(&self) -> ShardOptions {
        let storage = Options { cache_bytes: 1 << 20, ..Options::default() };
        let options = ShardOptions { storage, ..ShardOptions::default() };
        if self.1.1.lock().is_hurried {
            return ShardOptions { checkpoint: 8, copied_bytes: 2_000, ..options };
        }
        options
    }

    /// Mostly its disk is never full: without these little goes on.
    fn records(&mut self) -> Result<fulmar_kv::Database, Error> {
        let path = self.name(&named("cluster"), ShardId(0));
        let mut engine = self.1.open(&path).engine(self.2);
        if self.1.1.lock().fills_records {
            engine.is_full = self.1.full(self.0);
        }
        fulmar_kv::Database::with_engine(&path, Box::new(engine), &self.options().storage)
    }

    fn has_room(&mut self) -> bool {
        !self.1.full(self.0).load(Relaxed)
    }

    fn remember(&mut self, servers: &[u8]) -> Result<(), Error> {
        self.1.1.lock().servers.insert(self.0, servers.into());
        Ok(())
    }

    fn remembered(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.1.1.lock().servers.get(&self.0).cloned())
    }
}

/// Each shard on all servers, by one protocol or another.
pub(crate) fn replicas(seed: &Seed) -> Replication {
    replicas_on(3, seed)
}

/// …on so many.
pub(crate) fn replicas_on(replicas: u16, seed: &Seed) -> Replication {
    let protocols = [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative];
    Replication { replicas, protocol: protocols[usize::try_from(seed.number % 3).unwrap()] }
}

/// Servers that know each other, whose disks are `disks`, and so many clients.
pub(crate) fn world(
    seed: Seed,
    disks: &Disks,
    clients: u32,
    defect: Defect,
    replication: Replication,
) -> Sim<Role> {
    let disks = disks.clone();
    let count = SERVERS.max(replication.replicas.into());
    let mut sim = Sim::new(seed, move |id, records: &[Synced]| {
        if id.0 >= CLIENTS_BEGIN && id != LATE {
            let name = if id < LONERS { "bank".into() } else { id.to_string() };
            return Role::Client(Box::new(Client::new(u64::from(id.0), named(&name), true)), defect);
        }
        disks.crash(id, records);
        let mut databases = Box::new(Databases(id, disks.clone(), defect));
        let address = id.to_string();
        let server = if id == MANAGER && !disks.1.lock().wiped.contains(&id) {
            Server::first((id, &address), databases, replication).expect("a sound disk")
        } else {
            let remembered = Cluster::remembered(0, &mut *databases).expect("what was written");
            let known = disks.known(id);
            let map = remembered.map_or_else(|| Map::of(known, &known.to_string()), |cluster| cluster.map);
            Server::member((id, &address), databases, map)
        };
        Role::Server(Box::new(server), defect, Connections::default())
    });
    (0..count).map(NodeId).for_each(|server| sim.add(server));
    for client in 0..clients {
        sim.add(NodeId(CLIENTS_BEGIN + client));
    }
    let knows_all = |role: Option<&Role>| match role {
        Some(Role::Server(server, ..)) => server.map().servers.len() == count as usize,
        _ => false,
    };
    let met = sim.run_until(
        Duration::from_secs(60),
        |_, _, _| {},
        |sim| servers_of(sim).into_iter().all(|server| knows_all(sim.process(server))),
    );
    assert!(met, "the servers do not find each other");
    sim
}

/// A tree that the first client makes, with what is put into it.
pub(crate) fn plant(sim: &mut Sim<Role>, put: impl FnOnce(&mut Transaction, Tree) + Send + 'static) -> Tree {
    let made = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&made);
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        let mut transaction = connect_to(port, MANAGER).begin().expect("servers");
        let tree = transaction.create_tree().expect("a tree");
        put(&mut transaction, tree);
        transaction.commit(Durability::Synced).expect("servers");
        *tell.lock() = Some(tree);
    });
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
    made.lock().take().expect("the servers answer")
}

/// A server that is alone.
pub(crate) fn alone(seed: Seed, disks: &Disks) -> Sim<Role> {
    let disks = disks.clone();
    let mut sim = Sim::new(seed, move |id, _: &[Synced]| {
        if id != MANAGER {
            return Role::Client(
                Box::new(Client::new(u64::from(id.0), named("bank"), true)),
                Defect::Nothing,
            );
        }
        let databases = Box::new(Databases(id, disks.clone(), Defect::Nothing));
        let server = Server::first((id, &id.to_string()), databases, Replication::default());
        Role::Server(Box::new(server.expect("a sound disk")), Defect::Nothing, Connections::default())
    });
    sim.add(MANAGER);
    sim
}

/// For so long, leaves of these trees are moved, joined and split at random.
pub(crate) fn stir(sim: &mut Sim<Role>, trees: Vec<Tree>, until: Duration) {
    let mut random = sim.random().fork();
    let pause = Duration::from_micros(1 + random.below(50_000));
    let Some(left) = until.checked_sub(pause) else { return };
    sim.after(pause, move |sim| {
        let tree = trees[any(&mut random, trees.len())];
        let servers = servers_of(sim);
        let reshape = servers.iter().find_map(|server| match sim.process(*server) {
            Some(Role::Server(process, ..)) => {
                Some((*server, any_leaf(process, tree, servers.len(), &mut random)?))
            }
            _ => None,
        });
        if let Some((server, reshape)) = reshape {
            sim.request(server, Wish::Reshape(reshape));
        }
        stir(sim, trees, left);
    });
}

/// For so long, connections of these clients with servers break and are made again, and links between them are cut, in one
/// direction or both.
pub(crate) fn disturb(sim: &mut Sim<Role>, clients: u32, until: Duration) {
    let mut random = sim.random().fork();
    let pause = Duration::from_micros(1 + random.below(400_000));
    let Some(left) = until.checked_sub(pause) else { return };
    sim.after(pause, move |sim| {
        let client = NodeId(CLIENTS_BEGIN + u32::try_from(random.below(clients.into())).unwrap());
        let server = any_server(sim, &mut random);
        // Longer than a message is on its way: none of an old connection arrives on a new one.
        let lasting = Duration::from_micros(6_000 + random.below(400_000));
        let (cut, breaks) = match random.below(4) {
            0 => (sim.cut([client], [server]), false),
            1 => (sim.cut([server], [client]), false),
            _ => (sim.partition([client], [server]), true),
        };
        sim.after(lasting, move |sim| {
            if breaks && sim.is_up(server) {
                sim.disconnect(server, client);
            }
            sim.mend(cut);
        });
        disturb(sim, clients, left);
    });
}

/// For so long, the disk of one server at a time is full now and then.
pub(crate) fn fill_disks(sim: &mut Sim<Role>, disks: &Disks, until: Duration) {
    let mut random = sim.random().fork();
    let mut moment = Duration::ZERO;
    while moment < until {
        let is_full = disks.full(any_server(sim, &mut random));
        let (begin, end) =
            (Duration::from_micros(random.below(2_000_000)), Duration::from_micros(random.below(500_000)));
        let has_room = Arc::clone(&is_full);
        sim.after(moment + begin, move |_| is_full.store(true, Relaxed));
        sim.after(moment + begin + end, move |_| has_room.store(false, Relaxed));
        moment += begin + end;
    }
}

/// Faults, connections that break, and leaves that are moved, for some seconds.
pub(crate) fn strike(sim: &mut Sim<Role>, run: u64, trees: &[Tree], clients: u32) {
    let faults = faults(sim, run);
    sim.inject(faults);
    stir(sim, trees.to_vec(), Duration::from_secs(4));
    disturb(sim, clients, Duration::from_secs(4));
}

/// Disks that are full and that do not sync, for as long.
pub(crate) fn strike_disks(sim: &mut Sim<Role>, disks: &Disks) {
    fill_disks(sim, disks, Duration::from_secs(4));
    fail_syncs(sim, disks, Duration::from_secs(4));
}

/// Faults of servers and of what is between them and everybody, in every other two runs with [stalls](Faults::stall).
pub(crate) fn faults(sim: &mut Sim<Role>, run: u64) -> Faults {
    let stall = if run % 4 >= 2 { 4 } else { 0 };
    Faults { broken_disk: 0, stall, ..Faults::random(servers_of(sim), sim.random()) }
}

/// Whether [`fail_syncs`] is for this run: every other one without replicas.
pub(crate) fn syncs_fail(seed: &Seed, replication: Replication) -> bool {
    replication == Replication::default() && seed.number % 2 == 1
}

/// For so long, syncs of what shards without replicas have written fail now and then, on one server at a time. The disk may take
/// nothing for a while then. What was not synced before is lost in a crash, unless the shard is opened again first.
pub(crate) fn fail_syncs(sim: &mut Sim<Role>, disks: &Disks, until: Duration) {
    let (mut random, disks) = (sim.random().fork(), disks.clone());
    let pause = Duration::from_micros(1 + random.below(2_000_000));
    let Some(left) = until.checked_sub(pause) else { return };
    sim.after(pause, move |sim| {
        let server = any_server(sim, &mut random);
        if let Some(Role::Server(process, ..)) = sim.process(server) {
            let is_full = disks.full(server);
            is_full.store(true, Relaxed);
            fail_to_sync(sim, &disks, server, process.databases().chain(process.arrived()));
            let lasting = Duration::from_micros(random.below(2) * random.below(1_000_000));
            sim.after(lasting, move |_| is_full.store(false, Relaxed));
        }
        fail_syncs(sim, &disks, left);
    });
}

/// A sync of these fails, on a server whose disk is full: what was not synced before is lost in a crash.
pub(crate) fn fail_to_sync<'a>(
    sim: &Sim<Role>,
    disks: &Disks,
    server: NodeId,
    written: impl Iterator<Item = &'a fulmar_kv::Database>,
) {
    let synced = synced(sim.durable_log(server));
    for kv in written {
        disks.get(kv.path()).lose_after(synced.get(kv.path()).copied().unwrap_or(0));
        assert!(kv.sync().is_err(), "there is room");
    }
}

fn any_server(sim: &Sim<Role>, random: &mut Random) -> NodeId {
    let servers = servers_of(sim);
    servers[any(random, servers.len())]
}

/// One of so many.
fn any(random: &mut Random, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).unwrap()
}

/// Something to be done to one of the tree's leaves, unless it is the root.
fn any_leaf(server: &Server, tree: Tree, shards: usize, random: &mut Random) -> Option<Reshape> {
    let kv = server.databases().find(|kv| u32::from(kv.shard().0) == tree.0 >> 22)?;
    let mut node = kv.read(tree.root()).unwrap()?;
    while node.level() > 0 {
        let slot = any(random, node.slots());
        let (low, leaf) = (node.key(slot).into(), linked(node.value(slot))?);
        if node.level() == 1 {
            let shape = match random.below(8) {
                0 => Shape::Join(6 << 10),
                1 => Shape::Split(vec![[node.key(slot), &random.next().to_be_bytes()].concat().into()]),
                _ => Shape::Move(ShardId(u16::try_from(any(random, shards)).unwrap())),
            };
            return Some(Reshape { root: tree.root(), leaf, low, shape });
        }
        node = kv.read(leaf).unwrap()?;
    }
    None
}

/// The database, for a program.
pub(crate) fn connect(port: Port<Role>) -> Database {
    connect_to(port, MANAGER)
}

/// …by this server.
pub(crate) fn connect_to(port: Port<Role>, server: NodeId) -> Database {
    connect_by(&Arc::new(Mutex::new(port)), server)
}

/// …and by a port that the program has other uses for.
pub(crate) fn connect_by(port: &Arc<Mutex<Port<Role>>>, server: NodeId) -> Database {
    // A client that has crashed finds that out when it asks for something.
    let _ = port.lock().request(Wish::Ask(Ask::Server(server)));
    Database::remote(Arc::new(Remote::new(Path::new("server"), Caller(Arc::clone(port)))))
}

struct Caller(Arc<Mutex<Port<Role>>>);

impl Call for Caller {
    fn call(&mut self, ask: Ask) -> Result<Reply, Unreachable> {
        self.0.lock().call(Wish::Ask(ask)).map_err(|error| Unreachable(error.to_string()))
    }

    fn tell(&mut self, ask: Ask) {
        // A client that has crashed holds no snapshots.
        let _ = self.0.lock().request(Wish::Ask(ask));
    }
}
