//! The server: groups of databases for clients elsewhere.

mod balance;
mod clock;
mod copying;
mod failures;
mod group;
mod hand_over;
mod keeper;
mod ledger;
mod manager;
mod map;
mod replicas;
mod reshape;
mod retiring;
mod snapshots;
mod synced;
mod unused;

use crate::map::{Map, Replicas, Replication};
use crate::message::{self, Answer, DatabaseNumber, Failed, Message, Sight, Speaker};
use crate::name::DatabaseName;
use crate::news::News;
use crate::open::Open;
use crate::replicated::Entries;
use crate::status::Status;
pub use balance::Load;
use clock::Clock;
use failures::Failures;
use fulmar_kv::{Database, Error, Exclusion, GroupId, Timestamp};
use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
use fulmar_replication::Record;
use group::{Asked, Group, Sighted, Task};
use hand_over::{Arriving, Leaving, Unanswered};
use ledger::Ledger;
use manager::Manager;
pub use map::Joining;
pub(super) use map::remembered;
use replicas::Hosted;
use snapshots::Snapshots;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
pub use synced::{SyncLog, Synced};
use unused::Unused;

/// How often a server looks for what waits in vain.
const SWEEP: Duration = Duration::from_millis(250);

/// A server of another cluster that looks for one of its own tries every second.
const HESITATION: Duration = Duration::from_secs(2);

/// Groups by the servers that hold them, in the order of their names.
fn numbered(servers: &[NodeId]) -> impl Iterator<Item = (GroupId, &NodeId)> {
    (0..).map(GroupId).zip(servers)
}

/// Groups of databases on one server, as clients and other servers see them.
///
/// A record stands for what a group has handed to its engine; who drives the process makes it durable by
/// [`Database::sync`].
pub struct Server {
    site: Site,
    directory: Box<dyn Open>,
    groups: BTreeMap<(DatabaseNumber, GroupId), Group>,
    unused: Unused,
    /// If this server is the one that keeps the clock and the map.
    manager: Option<Manager>,
    /// Whether it is to found the replicas that keep the clock and the map.
    founds: bool,
    /// Where the servers are, as this one will find it when it begins again.
    remembered: Vec<u8>,
    /// Questions that need the clock, and from which of its answers on it is new enough.
    untimed: VecDeque<(u64, Question)>,
    /// Groups that came after others of their databases, and may have trees and leaves now.
    welcome: BTreeSet<(DatabaseNumber, GroupId)>,
    /// For how many sweeps this server has been busier than another.
    busier: u32,
    /// Groups that are to be another server's.
    leaving: BTreeMap<(DatabaseNumber, GroupId), Leaving>,
    /// How often this server has begun to hand one over.
    attempts: u64,
    /// What their last parts are answered as soon as they are durable.
    unanswered: VecDeque<Unanswered>,
    /// Groups that are to be this server's, or have become so since it began.
    arriving: BTreeMap<(DatabaseNumber, GroupId), Arriving>,
    /// Questions of clients for databases that are not on the map as it is known here.
    unplaced: Vec<(NodeId, u64, DatabaseName)>,
    /// Replicas of groups; what others are kept in, which begin as soon as the map tells that they do; and those whose disk
    /// has failed.
    replicas: BTreeMap<(DatabaseNumber, GroupId), Hosted>,
    opened: BTreeMap<(DatabaseNumber, GroupId), (Entries, Vec<Record>)>,
    failures: Failures,
    /// What the clock has said, if it is not to be heard before a newer map is.
    early: Option<Message>,
}

/// What a server knows beside its groups.
struct Site {
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
    /// What each server holds and does.
    loads: BTreeMap<NodeId, Load>,
    durable: Lsn,
    /// How many changes of the shape of trees have begun here: a group that is opened again must not take them for its own.
    reshaped: u64,
    /// What the server tells itself.
    own: VecDeque<Message>,
}

/// What a step of the server works with, beside the group that it is about.
struct Turn<'a> {
    site: &'a mut Site,
    now: Time,
    out: &'a mut Outbox<Server>,
}

impl Site {
    /// No snapshot that this server's clients hold, or will, is older.
    fn oldest(&self) -> Timestamp {
        self.snapshots.oldest().unwrap_or_else(|| self.clock.now())
    }

    fn turn<'a>(&'a mut self, now: Time, out: &'a mut Outbox<Server>) -> Turn<'a> {
        Turn { site: self, now, out }
    }
}

impl Turn<'_> {
    fn send(&mut self, to: NodeId, message: Message) {
        if to == self.site.me {
            self.site.own.push_back(message);
        } else {
            self.out.send(to, message);
        }
    }

    fn answer(&mut self, client: NodeId, number: u64, answer: Answer) {
        self.send(client, Message::Answer { number, answer });
    }

    fn failed(&self, error: Error) -> Answer {
        Answer::Failed(Failed::on(error, &self.site.address))
    }
}

/// A client's question about a group.
struct Question {
    client: NodeId,
    number: u64,
    again: bool,
    place: (DatabaseNumber, GroupId),
    question: message::Question,
}

/// When a server does something by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// It looks for what waits in vain.
    Sweep,
    /// It begins another of the replicas that it is to hold.
    Host,
    /// A replica of this group does something.
    Replica((DatabaseNumber, GroupId), fulmar_replication::Timer),
    /// The replica of this group has more to write to its engine.
    Store((DatabaseNumber, GroupId)),
    /// The leader of this group's replicas asks them again.
    Front((DatabaseNumber, GroupId)),
}

impl Server {
    /// The first server of its cluster, which keeps the clock and the map: alone, or if groups of new databases are to have
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
            None if founds => Map { records: Some(Replicas::of_records(me)), ..Map::of(me, address) },
            None => {
                let alone = Manager::new(directory.records()?, Ledger::Disk, None)?;
                let map = Map { keeper: me, ..alone.map().clone() };
                manager = Some(alone);
                map
            }
        };
        let mut server = Self { manager, founds, ..Self::member((me, address), directory, map) };
        server.site.replication = Some(replication);
        Ok(server)
    }

    /// Another server of a cluster; others find it at its address. `map` is what is known of the cluster: the server that
    /// keeps the clock and the map, at least.
    pub fn member((me, address): (NodeId, &str), directory: Box<dyn Open>, map: Map) -> Self {
        let site = Site {
            me,
            address: address.into(),
            replication: None,
            map,
            met: BTreeMap::new(),
            hesitates: None,
            asked: me,
            clock: Clock::default(),
            snapshots: Snapshots::default(),
            loads: BTreeMap::new(),
            durable: Lsn(0),
            reshaped: 0,
            own: VecDeque::new(),
        };
        Self {
            site,
            directory,
            groups: BTreeMap::new(),
            unused: Unused::default(),
            manager: None,
            founds: false,
            remembered: Vec::new(),
            untimed: VecDeque::new(),
            welcome: BTreeSet::new(),
            busier: 0,
            leaving: BTreeMap::new(),
            attempts: 0,
            unanswered: VecDeque::new(),
            arriving: BTreeMap::new(),
            unplaced: Vec::new(),
            replicas: BTreeMap::new(),
            opened: BTreeMap::new(),
            failures: Failures::default(),
            early: None,
        }
    }

    /// Has it make no database in a cluster without any for a while after it has started.
    pub(super) fn hesitate(&mut self) {
        self.site.hesitates = Some(Time::ZERO);
    }

    /// Whether the cluster is this server alone, and has no databases.
    pub fn is_unused(&self) -> bool {
        let map = self.manager.as_ref().map_or(&self.site.map, Manager::map);
        map.databases.is_empty() && map.servers.len() <= 1
    }

    /// Another server of the cluster was met at this address, wherever it is by the map.
    pub fn met(&mut self, server: NodeId, address: &str) {
        if !self.site.map.has(server, address) {
            self.site.met.insert(server, address.into());
        }
    }

    /// Where another server is, as far as that is known here.
    pub fn address(&self, server: NodeId) -> Option<&str> {
        self.site.met.get(&server).or_else(|| self.site.map.servers.get(&server)).map(String::as_str)
    }

    /// The map, as it is known here.
    pub fn map(&self) -> &Map {
        &self.site.map
    }

    /// The open groups.
    pub fn databases(&self) -> impl Iterator<Item = &Database> {
        self.groups.values().map(Group::database)
    }

    /// Whether this server holds the group, which then is open.
    fn holds(
        &mut self,
        place: (DatabaseNumber, GroupId),
        out: &mut Outbox<Self>,
        now: Time,
    ) -> Result<bool, Error> {
        if self.site.map.replicas(place).is_some() {
            return self.serves(place, now, out);
        }
        if self.groups.contains_key(&place) {
            return Ok(true);
        }
        let (database, group) = place;
        if self.site.map.server(database, group) != Some(self.site.me)
            || self.site.map.leaving.contains_key(&place)
        {
            return Ok(false);
        }
        let Some(placement) = self.site.map.databases.get(&database) else { return Ok(false) };
        let kv = self.directory.open(&placement.name, group)?;
        let trees = fulmar_dbt::Database::on(kv.clone())?;
        kv.storage().skip_lost_names()?;
        let has_arrived = self.arriving.contains_key(&place);
        let origin = (has_arrived, Ledger::Disk);
        let group = Group::new(place, (kv, trees), origin, &mut self.site.turn(now, out));
        self.groups.insert(place, group);
        Ok(true)
    }

    /// Answers a client's question, as soon as the clock has told what it needs.
    fn ask(&mut self, now: Time, asked: Question, out: &mut Outbox<Self>) {
        let mut asked = asked;
        if let message::Question::Read { object, from, direction, at, bytes } = &mut asked.question
            && let Sight::Once(expected) = at
        {
            let reached = self.site.clock.reached();
            if let Some(group) = self.groups.get_mut(&asked.place)
                && !group.is_replicated()
                && let Some(answer) = group.read_newest(
                    asked.client,
                    *object,
                    (direction.part(from), *bytes),
                    expected.as_ref(),
                    reached,
                )
            {
                return self.site.turn(now, out).answer(asked.client, asked.number, answer);
            }
            *at = Sight::New(expected.take());
        }
        // Another server may serve the group by the time of a snapshot that was opened elsewhere.
        let is_ahead = self.site.map.replicas(asked.place).is_some() && asked.sees() > self.site.clock.now();
        if let message::Question::Exclude(Exclusion::End) = asked.question {
            let begins = |question: &message::Question| {
                matches!(question, message::Question::Exclude(Exclusion::Begin))
            };
            self.untimed.retain(|(_, here)| {
                (here.client, here.place) != (asked.client, asked.place) || !begins(&here.question)
            });
        }
        // What is asked again while it waits here is here.
        let is_here =
            |(_, here): &(u64, Question)| (here.client, here.number) == (asked.client, asked.number);
        if asked.again && self.untimed.iter().any(is_here) {
            return;
        }
        let turn = &mut self.site.turn(now, out);
        if asked.needs_time() || is_ahead || !turn.site.clock.is_known() {
            if matches!(asked.question, message::Question::CommitUnread(..)) {
                turn.site.clock.go_on();
            }
            self.untimed.push_back((turn.site.clock.next(), asked));
            return turn.ask_time();
        }
        self.pursue(now, asked, out);
    }

    /// Answers a client's question, for which the clock is new enough.
    fn pursue(&mut self, now: Time, asked: Question, out: &mut Outbox<Self>) {
        let holds = self.holds(asked.place, out, now);
        // What was committed before this server knew the clock is seen as soon as the clock has reached it.
        let is_behind =
            |group: &Group| group.opened_at().max(self.site.clock.forgotten()) > self.site.clock.now();
        if asked.needs_time() && self.groups.get(&asked.place).is_some_and(is_behind) {
            self.untimed.push_back((self.site.clock.next(), asked));
            return self.site.turn(now, out).ask_time();
        }
        let Question { client, number, again, place, question } = asked;
        let turn = &mut self.site.turn(now, out);
        match holds {
            Ok(true) => {}
            Ok(false) => return turn.answer(client, number, Answer::Elsewhere),
            Err(error) => {
                // What was asked for before may have been done then.
                let error = if again { error.of_unknown_outcome() } else { error };
                let answer = turn.failed(error);
                return turn.answer(client, number, answer);
            }
        }
        if !question.groups().all(|group| turn.site.map.server(place.0, group).is_some()) {
            // Of one that is not there nobody would hear what it decides. If there is a newer map, it is known in a moment.
            return turn.answer(client, number, Answer::Elsewhere);
        }
        let Some(group) = self.groups.get_mut(&place) else { return };
        if question.changes() && !group.has_room() {
            // Who leads nobody may be led by another by now: the client asks again in a while, there or here.
            return turn.answer(client, number, Answer::Elsewhere);
        }
        let mut open = || {
            let at = turn.site.clock.now();
            turn.site.snapshots.open(client, number, at)
        };
        let task = match question {
            message::Question::OpenSnapshot => {
                let answer = open().map_or(Answer::Nothing, Answer::At);
                return turn.answer(client, number, answer);
            }
            message::Question::Newest => {
                let now = turn.site.clock.now();
                return turn.answer(client, number, Answer::At(now));
            }
            message::Question::Size => {
                let bytes = group.size();
                return turn.answer(client, number, Answer::Size(bytes));
            }
            message::Question::ReopenSnapshot(at) => {
                let reopened = group.reopen_snapshot(client, at);
                let reopened = reopened.map(|()| turn.site.snapshots.open(client, number, at));
                let answer = reopened.map_or_else(|error| turn.failed(error), |_| Answer::At(at));
                return turn.answer(client, number, answer);
            }
            message::Question::Pick { tree, next, count, at } => {
                let picked = group.pick(client, at, tree, (next, count));
                let answer = picked.map_or_else(|error| turn.failed(error), Answer::Picked);
                return turn.answer(client, number, answer);
            }
            message::Question::Read { object, from, direction, at, bytes } => {
                let sight = match at {
                    Sight::Open(at) => Sighted { at, is_new: false, expected: None, waits: true },
                    Sight::New(expected) | Sight::Once(expected) => {
                        let Some(at) = open() else { return };
                        Sighted { at, is_new: true, expected, waits: true }
                    }
                };
                Task::Read { object, from, direction, bytes, sight }
            }
            message::Question::Commit(transaction, commit, durability) => {
                Task::Commit(transaction, commit, durability)
            }
            message::Question::CommitUnread(transaction, mut commit, basis, durability) => {
                // What the clock has not reached yet would be a conflict, and the next try would find another.
                let now = turn.site.clock.now().max(group.database().storage().last());
                Arc::make_mut(&mut commit).snapshot = now.max(basis.after);
                Task::CommitUnread(transaction, commit, basis, durability)
            }
            message::Question::Prepare(prepare) => Task::Prepare(prepare),
            message::Question::Decide(transaction, at, durability) => {
                Task::Decide(transaction, at, durability)
            }
            message::Question::Exclude(exclusion) => Task::Exclude(exclusion),
            // Asked of the server.
            message::Question::Open { .. } => return,
        };
        group.ask(Asked { client, number, again, task }, turn);
    }

    /// The clock has told where it is.
    fn hear_time(&mut self, now: Time, number: u64, out: &mut Outbox<Self>) {
        while let Some((_, asked)) = self.untimed.pop_front_if(|(needs, _)| *needs <= number) {
            self.pursue(now, asked, out);
        }
        let turn = &mut self.site.turn(now, out);
        if self.untimed.is_empty() {
            turn.catch_up()
        } else {
            turn.ask_time()
        }
        self.release(now, out);
    }

    fn release(&mut self, now: Time, out: &mut Outbox<Self>) {
        for group in self.groups.values_mut() {
            group.release(&mut self.site.turn(now, out));
        }
    }

    /// Tells a group what another has to say, if it is served here: who asks and is not answered asks again.
    fn tell_group(
        &mut self,
        now: Time,
        place: (DatabaseNumber, GroupId),
        out: &mut Outbox<Self>,
        tell: impl FnOnce(&mut Group, &mut Turn<'_>) -> Result<(), Error>,
    ) -> bool {
        if self.site.clock.is_known()
            && matches!(self.holds(place, out, now), Ok(true))
            && let Some(group) = self.groups.get_mut(&place)
        {
            // A disk that fails here fails the next commit too, which says so.
            let _ = tell(group, &mut self.site.turn(now, out));
            return true;
        }
        false
    }

    /// Whether what comes from outside is for it: whoever is not heard is not answered.
    fn hears(&self, from: NodeId, message: &Message) -> bool {
        let clock = self.manager.as_ref().map_or(Timestamp(0), Manager::now).max(self.site.clock.reached());
        let has_replica = |hosted: &Hosted| hosted.replica.group().contains(from);
        let is_known = || self.site.met.contains_key(&from) || self.replicas.values().any(has_replica);
        let speaker = Speaker::of(from, &self.site.map, is_known);
        message.may_come_from(speaker)
            && message.can_follow(speaker, (clock, self.site.map.version), |database, group| {
                self.groups.contains_key(&(database, group))
            })
    }

    fn handle(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Question { number, question: message::Question::Open { name, create }, .. } => {
                self.open(now, from, number, (name, create), out);
            }
            Message::Question { number, again, database, group, question } => {
                let place = (database, group);
                self.ask(now, Question { client: from, number, again, place, question }, out);
            }
            Message::SnapshotClosed(at) => {
                if self.site.snapshots.close(from, at) {
                    self.groups.values_mut().for_each(|group| group.end_snapshot(from, at));
                }
            }
            Message::GivenUp(database, group, transaction) => {
                if let Some(group) = self.groups.get_mut(&(database, group)) {
                    group.give_up(transaction, &mut self.site.turn(now, out));
                }
            }
            Message::Transaction { database, group, from: primary, transaction, news } => {
                let is_step = matches!(news, News::Prepare { .. });
                let is_told = self.tell_group(now, (database, group), out, |group, turn| {
                    group.hear(primary, transaction, news, turn)
                });
                if is_step && !is_told {
                    // It does not ask again, and leaves are locked for it.
                    let news = News::Refused;
                    let refused =
                        Message::Transaction { database, group: primary, from: group, transaction, news };
                    self.site.turn(now, out).send(from, refused);
                }
            }
            Message::Reshape { database, reshape } => {
                let place = (database, reshape.root.group());
                self.tell_group(now, place, out, |group, turn| group.reshape(reshape, turn));
            }
            Message::Clock { number, reached, goes_on, oldest } => {
                if let Some(manager) = &mut self.manager {
                    let turn = &mut self.site.turn(now, out);
                    manager.clock(from, (number, goes_on), (reached, oldest), turn);
                }
            }
            Message::Time { map, .. } if map > self.site.map.version => {
                self.early = Some(message);
                self.site.turn(now, out).ask_map();
            }
            Message::Time { number, now: time, reached, watermark, .. } => {
                if self.site.clock.hear(number, (time, reached), watermark) {
                    self.begin_to_serve(number, now, out);
                    self.hear_time(now, number, out);
                } else if !self.site.clock.is_known() {
                    self.site.turn(now, out).ask_time();
                }
            }
            Message::Ask(request) => self.tell_map(now, from, request, out),
            Message::Map { map, about } => self.learn(now, map, about.as_ref(), out),
            Message::Load(load) => {
                if let Some(manager) = &mut self.manager {
                    let loads = manager.load(from, load);
                    self.site.turn(now, out).send(from, Message::Loads(loads));
                }
            }
            Message::Loads(loads) => self.site.loads = loads,
            Message::HandOver { database, group, attempt, number, objects, last } => {
                self.take_over(now, from, (database, group), ((attempt, number), (objects, last)), out);
            }
            Message::Arrived { database, group, attempt, number } => {
                self.hand_on(now, (database, group), (attempt, number), out);
            }
            Message::Replication { database, group, message } => {
                self.hear_replica((database, group), from, *message, now, out);
            }
            Message::Copy { database, group, from: object, upto, offset } => {
                self.give_chunk((database, group), from, (object, upto, offset), now, out);
            }
            Message::Copied { database, group, chunk } => {
                self.take_chunk((database, group), from, chunk, now, out);
            }
            Message::Examine => {
                let status = Status {
                    now: self.site.clock.now(),
                    watermark: self.site.clock.watermark(),
                    snapshots: self.site.snapshots.count(),
                    groups: self.groups.values().map(Group::status).collect(),
                    failures: [self.failures(), self.behind()].concat(),
                };
                self.site.turn(now, out).send(from, Message::Status(status));
            }
            // Not for a server.
            Message::Answer { .. } | Message::Status(_) => {}
        }
    }

    /// Looks for what waits in vain.
    fn sweep(&mut self, now: Time, out: &mut Outbox<Self>) {
        for group in self.groups.values_mut() {
            group.sweep(&mut self.site.turn(now, out));
        }
        self.sweep_replicas(now, out);
        self.reopen_failed(now, out);
        self.sweep_records(now, out);
        self.balance(now, out);
        self.hand_over(now, out);
        self.close_unused(now);
        let turn = &mut self.site.turn(now, out);
        turn.ask_time_again();
        turn.ask_map();
        turn.out.set_timer(Timer::Sweep, now + SWEEP);
    }

    /// What the server tells itself, until that is nothing more.
    fn settle(&mut self, now: Time, out: &mut Outbox<Self>) {
        loop {
            while let Some(message) = self.site.own.pop_front() {
                self.handle(now, self.site.me, message, out);
            }
            if !self.write_ahead(now, out) {
                return;
            }
        }
    }
}

impl Question {
    /// The snapshot that it is about, if that was opened before.
    fn sees(&self) -> Timestamp {
        match &self.question {
            message::Question::Read { at: Sight::Open(at), .. }
            | message::Question::ReopenSnapshot(at)
            | message::Question::Pick { at, .. } => *at,
            _ => Timestamp(0),
        }
    }

    /// Whether it is to be answered with what was acknowledged before it.
    fn needs_time(&self) -> bool {
        match &self.question {
            message::Question::OpenSnapshot
            | message::Question::Newest
            | message::Question::CommitUnread(..)
            | message::Question::Exclude(Exclusion::Begin) => true,
            message::Question::Read { at, .. } => !matches!(at, Sight::Open(_)),
            _ => false,
        }
    }
}

impl Process for Server {
    type Message = Message;
    type Timer = Timer;
    /// A server that was reached.
    type Request = Joining;
    /// A server that is to be called.
    type Event = Joining;
    type Record = Synced;

    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        self.site.durable = out.logged();
        self.site.clock.start(now);
        self.site.hesitates = self.site.hesitates.map(|_| now + HESITATION);
        let turn = &mut self.site.turn(now, out);
        if let Some(manager) = &mut self.manager {
            manager.start(None, turn);
        }
        self.host(now, out);
        let turn = &mut self.site.turn(now, out);
        turn.ask_time();
        turn.ask_map();
        turn.out.set_timer(Timer::Sweep, now + SWEEP);
        self.settle(now, out);
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Outbox<Self>) {
        if self.hears(from, &message) {
            self.handle(now, from, message, out);
            self.settle(now, out);
        }
    }

    fn request(&mut self, now: Time, joining: Joining, out: &mut Outbox<Self>) {
        self.join(now, joining, out);
        self.settle(now, out);
    }

    fn busy(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        self.step_replicas(now, out, |replica, out| replica.busy(now, peer, out));
        self.settle(now, out);
    }

    fn expire(&mut self, now: Time, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Sweep => self.sweep(now, out),
            Timer::Host => self.host(now, out),
            Timer::Replica(place, timer) => self.wake_replica(place, timer, now, out),
            Timer::Store(place) => self.step_replica(place, now, out, |_, _| {}),
            Timer::Front(place) => self.wake_front(place, now, out),
        }
        self.settle(now, out);
    }

    /// With a client's connection its snapshots end.
    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        self.site.snapshots.forget(peer);
        if let Some(manager) = &mut self.manager {
            manager.forget(peer);
        }
        self.untimed.retain(|(_, asked)| asked.client != peer);
        self.unplaced.retain(|(client, ..)| *client != peer);
        self.forget_user(peer, now, out);
        if self.site.map.servers.contains_key(&peer) {
            self.step_replicas(now, out, |replica, out| replica.disconnected(now, peer, out));
            let served: BTreeSet<_> = self.site.map.held(peer).collect();
            for ((database, _), group) in &mut self.groups {
                group.miss(|other| served.contains(&(*database, other)), &mut self.site.turn(now, out));
            }
        }
        self.settle(now, out);
    }

    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        self.site.durable = upto;
        if let Some(manager) = &mut self.manager {
            manager.durable(&mut self.site.turn(now, out));
        }
        self.answer_parts(now, out);
        self.replicas_durable(upto, now, out);
        self.release(now, out);
        self.settle(now, out);
    }
}
