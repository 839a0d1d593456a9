//! The server: shards of databases for clients elsewhere.

mod at_once;
mod backlog;
mod balance;
mod clock;
mod copying;
mod event;
mod failures;
mod hand_over;
mod ledger;
mod manager;
mod manager_replicas;
mod map;
mod questions;
mod replicas;
mod reshape;
mod retiring;
mod shard;
mod snapshots;
mod synced;
mod unused;

use crate::map::{Map, Replication};
use crate::message::{self, Failed, Message, Speaker};
use crate::name::{DatabaseName, DatabaseNumber};
use crate::open::Open;
use crate::peer::PeerMessage;
use crate::replicated::Entries;
use crate::status::{Load, Status};
use at_once::AtOnce;
use backlog::Backlog;
use clock::Clock;
pub use event::Event;
use failures::Failures;
use fulmar_kv::{Database, Error, ShardId, Timestamp};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_replication::Record;
use hand_over::{Arriving, Leaving, Unanswered};
use ledger::Ledger;
use manager::Manager;
pub use map::Joining;
pub(super) use map::remembered;
use questions::ClientQuestion;
use replicas::Hosted;
use shard::Shard;
use snapshots::Snapshots;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
pub use synced::{SyncLog, Synced};
use unused::Unused;

/// How often a server looks for what waits in vain.
const SWEEP: Duration = Duration::from_millis(250);

/// A server of another cluster that looks for one of its own tries every second.
const HESITATION: Duration = Duration::from_secs(2);

/// Shards by the servers that hold them, in the order of their names.
fn numbered(servers: &[NodeId]) -> impl Iterator<Item = (ShardId, &NodeId)> {
    (0..).map(ShardId).zip(servers)
}

/// Shards of databases on one server, as clients and other servers see them.
///
/// A record stands for what a shard has handed to its engine; who drives the process makes it durable by
/// [`Database::sync`].
pub struct Server {
    known: Known,
    held: Held,
}

/// What a server holds.
struct Held {
    directory: Box<dyn Open>,
    shards: Shards,
    replicas: Replicas,
    membership: Membership,
}

/// Shards that are served here, and those that come and go.
#[derive(Default)]
struct Shards {
    open: BTreeMap<(DatabaseNumber, ShardId), Shard>,
    unused: Unused,
    /// Questions that need the clock, and from which of its answers on it is new enough.
    untimed: Backlog<(u64, ClientQuestion)>,
    /// Shards that came after others of their databases, and may have trees and leaves now.
    welcome: BTreeSet<(DatabaseNumber, ShardId)>,
    /// For how many sweeps this server has been busier than another.
    busier: u32,
    /// Shards that are to be another server's.
    leaving: BTreeMap<(DatabaseNumber, ShardId), Leaving>,
    /// How often this server has begun to hand one over.
    attempts: u64,
    /// What their last parts are answered as soon as they are durable.
    unanswered: VecDeque<Unanswered>,
    /// Shards that are to be this server's, or have become so since it began.
    arriving: BTreeMap<(DatabaseNumber, ShardId), Arriving>,
}

/// Replicas of shards, whoever leads them.
#[derive(Default)]
struct Replicas {
    hosted: BTreeMap<(DatabaseNumber, ShardId), Hosted>,
    /// What others are kept in, which begin as soon as the map tells that they do.
    opened: BTreeMap<(DatabaseNumber, ShardId), (Entries, Vec<Record>)>,
    failures: Failures,
    /// Those of which there was last an event.
    told: Vec<String>,
}

/// The server as one of its cluster.
#[derive(Default)]
struct Membership {
    /// If this server is the one that keeps the clock and the map.
    manager: Option<Manager>,
    /// Whether it is to found the replicas that keep the clock and the map.
    founds: bool,
    /// Where the servers are, as this one will find it when it begins again.
    remembered: Vec<u8>,
    /// Questions of clients for databases that are not on the map as it is known here.
    unplaced: Backlog<(NodeId, u64, DatabaseName)>,
    /// What the clock has said, if it is not to be heard before a newer map is.
    early: Option<Message>,
}

/// What a server knows beside its shards.
struct Known {
    me: NodeId,
    /// Where others find it.
    address: String,
    /// As the first server: how new databases are to be replicated.
    replication: Option<Replication>,
    map: Map,
    /// Where servers were met that are elsewhere by the map.
    met: BTreeMap<NodeId, String>,
    /// As a first server that nobody has told to found a cluster: until when it makes no database.
    hesitates: Option<Time>,
    /// Who was asked last for a newer map, beside the one who keeps it.
    asked: NodeId,
    clock: Clock,
    snapshots: Snapshots,
    /// How many bytes of questions wait for transactions, in all shards.
    deferred: Arc<AtomicU64>,
    /// What each server holds and does.
    loads: BTreeMap<NodeId, Load>,
    durable: Lsn,
    /// How many changes of the shape of trees have begun here: a shard that is opened again must not take them for its own.
    reshaped: u64,
    /// What the server tells itself.
    own: VecDeque<Message>,
    /// What it cannot do for now, and why, of which there was an event.
    failing: BTreeMap<String, String>,
}

/// What a step of the server works with, beside the shard that it is about.
struct Turn<'a> {
    known: &'a mut Known,
    now: Time,
    out: &'a mut Outbox<Server>,
}

impl Known {
    /// No snapshot that this server's clients hold, or will, is older.
    fn oldest(&self) -> Timestamp {
        self.snapshots.oldest().unwrap_or_else(|| self.clock.now())
    }
}

impl Turn<'_> {
    fn send(&mut self, to: NodeId, message: Message) {
        if to == self.known.me {
            self.known.own.push_back(message);
        } else {
            self.out.send(to, message);
        }
    }

    /// Answers a client at once.
    fn answer(&mut self, client: NodeId, number: u64, answer: AtOnce) {
        self.send(client, Message::Answer { number, answer: answer.into() });
    }

    fn failed(&self, error: Error) -> Failed {
        Failed::on(error, &self.known.address)
    }

    /// What has come of something that is tried again if it fails: operators are told if it does for another reason than before, and when it
    /// succeeds.
    fn report<T>(&mut self, what: impl Fn(&Known) -> String, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(done) => {
                if !self.known.failing.is_empty() {
                    let over = self.known.failing.remove(&what(self.known));
                    over.into_iter().for_each(|why| self.out.event(Event::Recovers(why)));
                }
                Some(done)
            }
            // Transactions do that to each other.
            Err(Error::Conflict | Error::SnapshotGone) => None,
            Err(error) => {
                let what = what(self.known);
                let why = format!("cannot {what}: {error}; it is tried again");
                if self.known.failing.insert(what, why.clone()).as_ref() != Some(&why) {
                    self.out.event(Event::Fails(why));
                }
                None
            }
        }
    }
}

/// When a server does something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// It looks for what waits in vain.
    Sweep,
    /// It begins another of the replicas that it is to hold.
    Host,
    /// A replica of this shard does something.
    Replica((DatabaseNumber, ShardId), fulmar_replication::Timer),
    /// The replica of this shard has more to write to its engine.
    Store((DatabaseNumber, ShardId)),
    /// The leader of this shard's replicas asks them again.
    Front((DatabaseNumber, ShardId)),
}

impl Server {
    /// The first server of its cluster, which keeps the clock and the map: alone, or if shards of new databases are to have
    /// replicas, together with others, as soon as there are. Others find it at its address.
    ///
    /// # Errors
    /// What opening the cluster's records says.
    pub fn first(
        (me, address): (NodeId, &str),
        mut directory: Box<dyn Open>,
        replication: Replication,
    ) -> Result<Self, Error> {
        let known = remembered(&mut *directory)?.filter(|map| map.records.is_some());
        let founds = known.is_none() && replication.replicas > 1;
        let mut manager = None;
        let map = match known {
            Some(map) => map,
            None if founds => {
                Map { records: Some(crate::map::Replicas::of_records(me)), ..Map::of(me, address) }
            }
            None => {
                let alone = Manager::new(directory.records()?, Ledger::Disk, None)?;
                let map = Map { manager: me, ..alone.map().clone() };
                manager = Some(alone);
                map
            }
        };
        let mut server = Self::member((me, address), directory, map);
        server.known.replication = Some(replication);
        server.held.membership = Membership { manager, founds, ..Membership::default() };
        Ok(server)
    }

    /// Another server of a cluster; others find it at its address. `map` is what is known of the cluster: the server that
    /// keeps the clock and the map, at least.
    pub fn member((me, address): (NodeId, &str), directory: Box<dyn Open>, map: Map) -> Self {
        let known = Known {
            me,
            address: address.into(),
            replication: None,
            map,
            met: BTreeMap::new(),
            hesitates: None,
            asked: me,
            clock: Clock::default(),
            snapshots: Snapshots::default(),
            deferred: Arc::default(),
            loads: BTreeMap::new(),
            durable: Lsn(0),
            reshaped: 0,
            own: VecDeque::new(),
            failing: BTreeMap::new(),
        };
        let held = Held {
            directory,
            shards: Shards::default(),
            replicas: Replicas::default(),
            membership: Membership::default(),
        };
        Self { known, held }
    }

    /// Has it make no database in a cluster without any for a while after it has started.
    pub(super) fn hesitate(&mut self) {
        self.known.hesitates = Some(Time::ZERO);
    }

    /// Whether the cluster is this server alone, and has no databases.
    pub fn is_unused(&self) -> bool {
        self.held.is_unused(&self.known)
    }

    /// Another server of the cluster was met at this address, wherever it is by the map.
    pub fn met(&mut self, server: NodeId, address: &str) {
        if !self.known.map.has(server, address) {
            self.known.met.insert(server, address.into());
        }
    }

    /// Where another server is, as far as that is known here.
    pub fn address(&self, server: NodeId) -> Option<&str> {
        self.known.met.get(&server).or_else(|| self.known.map.servers.get(&server)).map(String::as_str)
    }

    /// The map, as it is known here.
    pub fn map(&self) -> &Map {
        &self.known.map
    }

    /// The open shards.
    pub fn databases(&self) -> impl Iterator<Item = &Database> {
        self.held.shards.open.values().map(Shard::database)
    }

    /// The shards of which all has come here from another server, and is not on the disk yet.
    pub fn arrived(&self) -> impl Iterator<Item = &Database> {
        self.held.arrived()
    }

    /// What of this server takes no part, and why.
    pub fn failures(&self) -> Vec<String> {
        self.held.failures(&self.known)
    }

    /// What this server tells about itself.
    pub fn status(&self) -> Status {
        self.held.status(&self.known)
    }

    /// What of this server does not count yet, as it has to hear first what the others have. Which replicas it is to hold it
    /// knows when it has heard of the map.
    pub fn behind(&self) -> Vec<String> {
        self.held.behind(&self.known)
    }

    /// Has others lead the shards that are led here, and then what keeps the clock and the map, as far as others are there for
    /// it. Whether there is nothing of that to be done any more; it is to be called again until then.
    pub fn retire(&mut self, now: Time, out: &mut Outbox<Self>) -> bool {
        let (held, turn) = &mut self.turn(now, out);
        let has_retired = held.retire(turn);
        held.settle(turn);
        has_retired
    }

    fn turn<'a>(&'a mut self, now: Time, out: &'a mut Outbox<Self>) -> (&'a mut Held, Turn<'a>) {
        (&mut self.held, Turn { known: &mut self.known, now, out })
    }
}

impl Held {
    /// Whether what comes from outside is for it: whoever is not heard is not answered.
    fn hears(&self, from: NodeId, message: &Message, known: &Known) -> bool {
        let clock =
            self.membership.manager.as_ref().map_or(Timestamp(0), Manager::now).max(known.clock.reached());
        let has_replica = |hosted: &Hosted| hosted.replica.group().contains(from);
        let is_known = || known.met.contains_key(&from) || self.replicas.hosted.values().any(has_replica);
        let speaker = Speaker::of(from, &known.map, is_known);
        message.may_come_from(speaker)
            && message.can_follow(speaker, (clock, known.map.version), |database, shard| {
                self.shards.open.contains_key(&(database, shard))
            })
    }

    fn handle(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_>) {
        match message {
            Message::Question { number, question: message::Question::Open { name, create }, .. } => {
                self.open(from, number, (name, create), turn);
            }
            Message::Question { number, again, database, shard, question } => {
                let place = (database, shard);
                self.ask(ClientQuestion { client: from, number, again, place, question }, turn);
            }
            Message::SnapshotClosed(at) => {
                if turn.known.snapshots.close(from, at) {
                    self.shards.open.values_mut().for_each(|shard| shard.end_snapshot(from, at));
                }
            }
            Message::GivenUp(database, shard, transaction) => {
                if let Some(shard) = self.shards.open.get_mut(&(database, shard)) {
                    shard.give_up(transaction, turn);
                }
            }
            Message::Transaction { database, shard, from: primary, transaction, said } => {
                let is_step = matches!(said, PeerMessage::Prepare { .. });
                let is_told = self.tell_shard((database, shard), turn, |shard, turn| {
                    shard.hear(primary, transaction, said, turn)
                });
                if is_step && !is_told {
                    // It does not ask again, and leaves are locked for it.
                    let said = PeerMessage::Refused;
                    let refused =
                        Message::Transaction { database, shard: primary, from: shard, transaction, said };
                    turn.send(from, refused);
                }
            }
            Message::Reshape { database, reshape } => {
                let place = (database, reshape.root.shard());
                self.tell_shard(place, turn, |shard, turn| shard.reshape(reshape, turn));
            }
            Message::Clock { number, reached, goes_on, oldest } => {
                if let Some(manager) = &mut self.membership.manager {
                    manager.clock(from, (number, goes_on), (reached, oldest), turn);
                }
            }
            Message::Time { map, .. } if map > turn.known.map.version => {
                self.membership.early = Some(message);
                turn.ask_map();
            }
            Message::Time { number, now: time, reached, watermark, .. } => {
                if turn.known.clock.hear(number, (time, reached), watermark) {
                    self.begin_to_serve(number, turn);
                    self.hear_time(number, turn);
                } else if !turn.known.clock.is_known() {
                    turn.ask_time();
                }
            }
            Message::Ask(request) => self.tell_map(from, request, turn),
            // Who keeps the map learns it from nobody else.
            Message::Map { .. } if from != turn.known.me && self.membership.manager.is_some() => {}
            Message::Map { map, about } => self.learn(map, about.as_ref(), turn),
            Message::Load(load) => {
                if let Some(manager) = &mut self.membership.manager {
                    let loads = manager.load(from, load);
                    turn.send(from, Message::Loads(loads));
                }
            }
            Message::Loads(loads) => turn.known.loads = loads,
            Message::HandOver { database, shard, attempt, number, objects, last } => {
                self.take_over(from, (database, shard), ((attempt, number), (objects, last)), turn);
            }
            Message::Arrived { database, shard, attempt, number } => {
                self.hand_on((database, shard), (attempt, number), turn);
            }
            Message::Replication { database, shard, message } => {
                self.hear_replica((database, shard), from, *message, turn);
            }
            Message::Copy { database, shard, from: object, upto, offset } => {
                self.give_chunk((database, shard), from, (object, upto, offset), turn);
            }
            Message::Copied { database, shard, chunk } => {
                self.take_chunk((database, shard), from, chunk, turn);
            }
            Message::Examine => {
                let status = self.status(turn.known);
                turn.send(from, Message::Status(status));
            }
            // Not for a server.
            Message::Answer { .. } | Message::Status(_) => {}
        }
    }

    fn status(&self, known: &Known) -> Status {
        Status {
            now: known.clock.now(),
            watermark: known.clock.watermark(),
            snapshots: known.snapshots.count(),
            shards: self.shards.open.values().map(Shard::status).collect(),
            failures: [self.failures(known), self.behind(known)].concat(),
        }
    }

    /// Somebody's connection has ended.
    fn miss(&mut self, peer: NodeId, turn: &mut Turn<'_>) {
        if let Some(manager) = &mut self.membership.manager {
            manager.forget(peer);
        }
        self.shards.untimed.extract(|(_, asked)| asked.client == peer);
        self.membership.unplaced.extract(|(client, ..)| *client == peer);
        self.forget_user(peer, turn);
        if turn.known.map.servers.contains_key(&peer) {
            self.step_replicas(turn, |replica, now, out| replica.disconnected(now, peer, out));
            let served: BTreeSet<_> = turn.known.map.held(peer).collect();
            for ((database, _), shard) in &mut self.shards.open {
                shard.miss(|other| served.contains(&(*database, other)), turn);
            }
        }
    }

    /// Looks for what waits in vain.
    fn sweep(&mut self, turn: &mut Turn<'_>) {
        for shard in self.shards.open.values_mut() {
            shard.sweep(turn);
        }
        self.sweep_replicas(turn);
        self.reopen_failed(turn);
        self.tell_failures(turn);
        self.sweep_records(turn);
        self.balance(turn);
        self.hand_over(turn);
        self.close_unused(turn);
        turn.ask_time_again();
        turn.ask_map();
        // In one turn with the signs of leaders.
        turn.out.set_timer(Timer::Sweep, turn.now.next_multiple_of(SWEEP));
    }

    /// What the server tells itself, until that is nothing more.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(message) = turn.known.own.pop_front() {
                self.handle(turn.known.me, message, turn);
            }
            if !self.propose(turn) {
                return;
            }
        }
    }
}

impl Process for Server {
    type Message = Message;
    type Timer = Timer;
    /// A server that was reached.
    type Request = Joining;
    type Event = Event;
    type Record = Synced;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.known.durable = out.logged();
        self.known.clock.start(now);
        self.known.hesitates = self.known.hesitates.map(|_| now + HESITATION);
        let (held, turn) = &mut self.turn(now, out);
        if let Some(manager) = &mut held.membership.manager {
            manager.start(None, turn);
        }
        held.host(turn);
        turn.ask_time();
        turn.ask_map();
        turn.out.set_timer(Timer::Sweep, now + SWEEP);
        held.settle(turn);
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        let (held, turn) = &mut self.turn(now, out);
        if held.hears(from, &message, turn.known) {
            held.handle(from, message, turn);
            held.settle(turn);
        }
    }

    fn request(&mut self, now: Time, joining: Joining, out: &mut Outbox<Self>) {
        let (held, turn) = &mut self.turn(now, out);
        held.join(joining, turn);
        held.settle(turn);
    }

    fn busy(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        let (held, turn) = &mut self.turn(now, out);
        held.step_replicas(turn, |replica, now, out| replica.busy(now, peer, out));
        held.settle(turn);
    }

    fn expire(&mut self, now: Time, timer: Timer, out: &mut Outbox<Self>) {
        let (held, turn) = &mut self.turn(now, out);
        match timer {
            Timer::Sweep => held.sweep(turn),
            Timer::Host => held.host(turn),
            Timer::Replica(place, timer) => held.wake_replica(place, timer, turn),
            Timer::Store(place) => held.step_replica(place, turn, |_, _, _| {}),
            Timer::Front(place) => held.wake_front(place, turn),
        }
        held.settle(turn);
    }

    /// With a client's connection its snapshots end.
    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        let (held, turn) = &mut self.turn(now, out);
        turn.known.snapshots.forget(peer);
        held.miss(peer, turn);
        held.settle(turn);
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        self.known.durable = upto;
        let (held, turn) = &mut self.turn(now, out);
        if let Some(manager) = &mut held.membership.manager {
            manager.durable(turn);
        }
        held.answer_parts(turn);
        held.replicas_durable(upto, turn);
        held.release(turn);
        held.settle(turn);
    }
}
