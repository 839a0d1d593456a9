//! A server that is spoken to, and a client of good will, who commits and reads between what others say.

use fulmar_cluster::{
    Answer, DatabaseNumber, Direction, Directory, Event, Found, Joining, Layout, Map, MapRequest, Message,
    NodeId, Placement, Question, Replication, Server, ShardOptions, Sight, SyncLog, Timer,
};
use fulmar_kv::{
    Change, Commit, Durability, ObjectId, Restructuring, ShardId, Timestamp, TransactionId, Write,
};
use fulmar_node::{Outbox, Process, Time};
use fulmar_transport::{FIRST_CLIENT, Log, Wire};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ME: NodeId = NodeId(0);
pub(crate) const MEMBER: NodeId = NodeId(7);
pub(crate) const STRANGER: NodeId = NodeId(9);
pub(crate) const CLIENT: NodeId = FIRST_CLIENT;
pub(crate) const HOSTILE: NodeId = NodeId(FIRST_CLIENT.0 + 1);
pub(crate) const PLACE: (DatabaseNumber, ShardId) = (DatabaseNumber(0), ShardId(0));
pub(crate) const OBJECT: ObjectId = ObjectId::new(ShardId(0), 1 << 20);

/// The map of a cluster that another server leads, with a database whose shards these servers have.
pub(crate) fn map_of_birds(shards: Vec<NodeId>) -> Map {
    let replicated = BTreeMap::new();
    let placement = Placement { name: "birds".try_into().unwrap(), founded: 1, shards, replicated };
    let mut map = Map::of(MEMBER, "b:1");
    map.servers.insert(ME, "a:1".into());
    map.databases.insert(PLACE.0, placement);
    map
}

/// The name of a client of good will.
const NOBODY_GUESSES: u64 = 0x0123_4567_89ab_cdef;

/// A server with its disk, and nothing between it and whoever speaks to it.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) out: Outbox<Server>,
    pub(crate) log: SyncLog,
    pub(crate) now: Time,
    pub(crate) questions: u64,
    pub(crate) commits: u64,
    /// Whom it wants to have called.
    pub(crate) joining: Vec<Joining>,
    /// The last question for the clock that it has asked another server.
    pub(crate) clock_asked: Option<u64>,
}

impl Node {
    /// The first server of a cluster, of which another is a member.
    pub(crate) fn first(path: &Path) -> Self {
        let directory = Box::new(Directory::new(path.into(), ShardOptions::default()));
        Self::of(Server::first((ME, "a:1"), directory, Replication::default()).unwrap())
    }

    /// The same with a database and another server.
    pub(crate) fn with_member(path: &Path) -> Self {
        let mut node = Self::first(path);
        node.open("birds", true);
        node.join(MEMBER, "b:1");
        node
    }

    /// A server says that it is there, and answers.
    pub(crate) fn join(&mut self, server: NodeId, address: &str) {
        self.hear(server, Message::Ask(MapRequest::Join(address.into())));
        let joining = self.joining.pop().expect("it is to be called");
        assert_eq!(joining, Joining { server, address: address.into() });
        self.server.request(self.now, joining, &mut self.out);
        self.settle();
        assert!(self.server.map().servers.contains_key(&server));
    }

    /// Begins again from what is on the disk: all commits are there, and it goes on.
    pub(crate) fn restart(self, path: &Path) {
        let commits = self.commits;
        drop(self);
        let mut node = Self { commits, ..Self::first(path) };
        node.open("birds", false);
        assert_eq!(node.rows(), commits);
        node.commit();
    }

    pub(crate) fn of(server: Server) -> Self {
        let (log, out) = (SyncLog::of(&server), Outbox::default());
        let now = Time::from_nanos(1_000_000_000);
        let mut node =
            Self { server, out, log, now, questions: 0, commits: 0, joining: Vec::new(), clock_asked: None };
        node.server.start(node.now, &mut node.out);
        node.settle();
        node
    }

    /// What is sent, when all is done and durable.
    pub(crate) fn settle(&mut self) -> Vec<(NodeId, Message)> {
        let mut sent = Vec::new();
        loop {
            let clock_asked = self.out.sends.iter().rev().find_map(|(_, message)| match message {
                Message::Clock { number, .. } => Some(*number),
                _ => None,
            });
            self.clock_asked = clock_asked.or(self.clock_asked);
            sent.append(&mut self.out.sends);
            self.joining.extend(self.out.events.drain(..).filter_map(|event| match event {
                Event::Joining(joining) => Some(joining),
                _ => None,
            }));
            let (upto, is_done) = (self.out.logged(), self.out.records.is_empty());
            self.log.append(&self.out.records).unwrap();
            self.out.clear();
            if is_done {
                return sent;
            }
            Log::<_>::sync(&mut self.log).unwrap();
            self.server.durable(self.now, upto, &mut self.out);
        }
    }

    pub(crate) fn hear(&mut self, from: NodeId, message: Message) -> Vec<(NodeId, Message)> {
        // As it comes from a socket, if it does.
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let Ok(message) = Message::decode(&bytes) else { return Vec::new() };
        self.server.receive(self.now, from, message, &mut self.out);
        self.settle()
    }

    /// Somebody asks, and others do before any of it is durable.
    pub(crate) fn say(&mut self, client: NodeId, question: Question) {
        self.questions += 1;
        let (number, (database, shard)) = (self.questions, PLACE);
        let asked = Message::Question { number, again: false, database, shard, question };
        self.server.receive(self.now, client, asked, &mut self.out);
    }

    /// A minute after who means no good has gone: what he has locked or excluded is free again. (Who was a member may have been drained.)
    pub(crate) fn wait(&mut self) {
        for gone in [HOSTILE, STRANGER, MEMBER] {
            self.server.disconnected(self.now, gone, &mut self.out);
            self.settle();
        }
        self.pass(Duration::from_secs(60));
    }

    /// Time passes; what is said meanwhile.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<(NodeId, Message)> {
        let (until, mut sent) = (self.now + time, Vec::new());
        while self.now < until {
            self.now = self.now + Duration::from_millis(250);
            self.server.expire(self.now, Timer::Sweep, &mut self.out);
            sent.append(&mut self.settle());
        }
        sent
    }

    pub(crate) fn ask_by(&mut self, client: NodeId, question: Question) -> Option<Answer> {
        self.ask_once_or_again(client, false, question)
    }

    pub(crate) fn ask_once_or_again(
        &mut self,
        client: NodeId,
        again: bool,
        question: Question,
    ) -> Option<Answer> {
        self.questions += 1;
        let number = self.questions;
        let (database, shard) = PLACE;
        let sent = self.hear(client, Message::Question { number, again, database, shard, question });
        let answers = sent.into_iter().filter(|(to, _)| *to == client);
        answers
            .filter_map(|(_, sent)| match sent {
                Message::Answer { number: of, answer } if of == number => Some(answer),
                _ => None,
            })
            .next_back()
    }

    fn ask(&mut self, question: Question) -> Answer {
        self.ask_by(CLIENT, question).expect("an answer")
    }

    pub(crate) fn open(&mut self, name: &str, create: bool) -> Layout {
        match self.ask(Question::Open { name: name.try_into().unwrap(), create }) {
            Answer::Open(layout, _) => layout,
            answer => panic!("{answer:?}"),
        }
    }

    pub(crate) fn newest(&mut self) -> Timestamp {
        let Answer::At(newest) = self.ask(Question::Newest) else { panic!("no snapshot") };
        newest
    }

    /// Commits a row, and reads all that were committed before.
    pub(crate) fn commit(&mut self) {
        let snapshot = self.newest();
        self.commits += 1;
        let key = self.commits.to_be_bytes().as_slice().into();
        let create = (self.commits == 1).then_some(Restructuring::Create { object: OBJECT });
        let changes = vec![Change { key, value: Some(b"row".as_slice().into()) }];
        let commit = Commit {
            snapshot,
            restructurings: create.into_iter().collect(),
            writes: vec![Write { object: OBJECT, cleared: Vec::new(), changes: changes.into() }],
            ..Commit::default()
        };
        let transaction = TransactionId { client: NOBODY_GUESSES, number: self.commits };
        let question = Question::Commit(transaction, Arc::new(commit), Durability::Synced);
        let answer = self.ask(question);
        assert!(matches!(answer, Answer::At(_)), "commit {}: {answer:?}", self.commits);
        assert_eq!(self.rows(), self.commits, "rows after as many commits");
    }

    fn rows(&mut self) -> u64 {
        let question = Question::Read {
            object: OBJECT,
            from: [].into(),
            direction: Direction::Up,
            at: Sight::New(None),
            bytes: 1 << 20,
            begun: None,
        };
        match self.ask(question) {
            Answer::Opened(at, Some(Found::Object(object))) => {
                self.hear(CLIENT, Message::SnapshotClosed(at));
                object.count(at) as u64
            }
            answer => panic!("{answer:?}"),
        }
    }
}
