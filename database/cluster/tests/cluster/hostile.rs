//! What a peer or a client says that means no good, or does not know what it says: names that lead elsewhere, numbers that lead nowhere,
//! and what only others may say. Until servers can prove who they are, a peer may still speak as a server that is on the map.

mod memory;
mod speakers;

use crate::node::{CLIENT, HOSTILE, ME, MEMBER, Node, OBJECT, PLACE, STRANGER, map_of_birds};
use crate::said;
use fulmar_cluster::{
    Answer, Directory, HandOver, Joining, Map, MapRequest, Message, NodeId, PeerMessage, Question,
    Replication, Server, ShardOptions, Single,
};
use fulmar_coding::put_bytes;
use fulmar_dbt::{Database, Options};
use fulmar_kv::{
    Basis, Change, Commit, Durability, Exclusion, ObjectId, Outcome, Prepare, Restructuring, ShardId,
    Timestamp, TransactionId, Write,
};
use fulmar_node::Random;
use fulmar_transport::Wire;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Names with which a directory was made, or removed, wherever the server may do that.
#[test]
fn what_is_no_name_is_no_message() {
    let long = "x".repeat(5 << 20);
    for name in ["../../x", "/tmp/x", "..", "", "a\0b", "a\u{1b}[2J", "a/b", &long] {
        for start in [&[4, 2, 0, 0, 1][..], &[38, 1]] {
            let mut bytes = start.to_vec();
            put_bytes(&mut bytes, name.as_bytes());
            assert!(Message::decode(&bytes).is_err(), "{:.20}", name);
            bytes.truncate(start.len());
            put_bytes(&mut bytes, b"birds");
            assert!(Message::decode(&bytes).is_ok(), "{start:?}");
        }
    }
}

/// A shard that nobody had agreed to hand over took the place of a directory that the server had not made.
#[test]
fn what_arrives_takes_the_place_of_nothing_that_was_not_sent() {
    let directory = tempfile::tempdir().unwrap();
    let (own, arrived) = (directory.path().join("birds"), directory.path().join(".birds.0"));
    drop(Database::open(&own, &Options { create: true, ..Options::default() }).unwrap());
    let mut map = map_of_birds(vec![MEMBER]);
    let databases = Box::new(Directory::new(directory.path().into(), ShardOptions::default()));
    let mut node = Node::of(Server::member((ME, "a:1"), databases, map.clone()));
    let part = || Message::HandOver {
        database: PLACE.0,
        shard: PLACE.1,
        attempt: 1,
        number: 0,
        objects: Vec::new(),
        last: Some((Timestamp(5), 70)),
    };
    let hand_over = |to, attempt| HandOver { to, attempt };
    for (version, agreed) in [(1, None), (2, Some(hand_over(STRANGER, 1))), (3, Some(hand_over(ME, 2)))] {
        map.version = version;
        map.leaving = agreed.map(|agreed| (PLACE, agreed)).into_iter().collect();
        node.hear(MEMBER, Message::Map { map: map.clone(), about: None });
        assert!(node.hear(MEMBER, part()).is_empty(), "{agreed:?}");
        assert!(!arrived.exists(), "{agreed:?}");
    }
    map.version = 4;
    map.leaving = BTreeMap::from([(PLACE, hand_over(ME, 1))]);
    node.hear(MEMBER, Message::Map { map, about: None });
    let sent = node.hear(MEMBER, part());
    assert!(matches!(sent[..], [(MEMBER, Message::Arrived { .. })]), "{sent:?}");
    assert!(arrived.exists());
    drop(node);
    Database::open(&own, &Options::default()).expect("what was there");
}

/// The next commit was acknowledged, and all was damaged from then on; or nothing was answered until a restart.
#[test]
fn numbers_that_lead_nowhere_harm_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    for at in [1 << 41, 1 << 61, (1 << 62) - 1, 1 << 62, (1 << 63) - 2, u64::MAX - 1, u64::MAX].map(Timestamp)
    {
        let transaction = TransactionId { client: 2, number: at.0 };
        let commit =
            Commit { snapshot: at, required: vec![(OBJECT, b"x".as_slice().into())], ..Commit::default() };
        let prepare = Prepare { transaction, primary: ShardId(0), others: vec![ShardId(1)], commit };
        let questions = [
            Question::Prepare(Prepare {
                commit: Commit { snapshot: Timestamp(0), ..prepare.commit.clone() },
                ..prepare.clone()
            }),
            Question::Prepare(prepare.clone()),
            Question::Decide(transaction, at, Durability::Synced),
            Question::ReopenSnapshot(at),
            Question::Commit(transaction, Arc::new(prepare.commit), Durability::Synced),
            Question::Pick { tree: OBJECT, next: i64::MAX, count: i64::MAX, at },
        ];
        for question in questions {
            node.ask_by(HOSTILE, question);
            node.commit();
        }
        let map = Map { version: at.0, ..Map::default() };
        let (database, shard) = PLACE;
        let said = |said| Message::Transaction { database, shard, from: ShardId(1), transaction, said };
        let messages = [
            Message::Clock { number: 1, reached: at, goes_on: at.0, oldest: at },
            Message::Time { number: u64::MAX, now: at, reached: at, watermark: at, map: at.0 },
            Message::Map { map, about: None },
            Message::Loads(BTreeMap::new()),
            said(PeerMessage::Open(at)),
            said(PeerMessage::Asked { snapshot: at, reader: Some(at) }),
            said(PeerMessage::Ended(Outcome::Committed(at))),
            Message::Ask(MapRequest::Newer(at.0)),
        ];
        for message in messages {
            for from in [HOSTILE, STRANGER, MEMBER] {
                node.hear(from, message.clone());
                node.commit();
            }
        }
    }
    node.restart(directory.path());
}

/// What is believed is gone on from, and that must be good for the disk, too.
#[test]
fn the_furthest_time_that_is_believed_is_written_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let before = node.newest();
    let mut hear_of = |furthest: u64| {
        let reached = Timestamp(before.0 + furthest);
        node.hear(MEMBER, Message::Clock { number: furthest, reached, goes_on: 1, oldest: before });
        node.commit();
        node.newest() > reached
    };
    // As `LEAP` of the server's.
    assert!(!hear_of(1 << 41), "so far no work takes a clock");
    assert!(hear_of(1 << 40));
    for leap in 2..300 {
        hear_of(leap << 40);
    }
    assert!(node.newest() < Timestamp(1 << 48), "what is made of times has 64 bits");
    node.restart(directory.path());
}

/// Two versions of a cell of one time were acknowledged, and the object that held them could not be read back.
#[test]
fn a_cell_is_not_changed_twice_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let astray = ObjectId::new(ShardId(0), OBJECT.number() + 1);
    let create = Restructuring::Create { object: astray };
    for objects in [[OBJECT, OBJECT], [astray, astray]] {
        let snapshot = node.newest();
        let change = || Change { key: [1].into(), value: Some(b"twice".as_slice().into()) };
        let write = |object| Write { object, cleared: Vec::new(), changes: vec![change()].into() };
        let commit = Commit {
            snapshot,
            restructurings: vec![create.clone()],
            writes: objects.map(write).into(),
            ..Commit::default()
        };
        let transaction = TransactionId { client: 3, number: 1 };
        let prepare =
            Prepare { transaction, primary: ShardId(0), others: Vec::new(), commit: commit.clone() };
        let commit = Arc::new(commit);
        let basis = Basis::default();
        for question in [
            Question::Commit(transaction, Arc::clone(&commit), Durability::Synced),
            Question::CommitUnread(transaction, commit, basis, Durability::Synced),
            Question::Prepare(prepare),
        ] {
            let answer = node.ask_by(HOSTILE, question);
            assert!(!matches!(answer, Some(Answer::At(_))), "{objects:?}: {answer:?}");
            node.commit();
        }
    }
    node.restart(directory.path());
}

/// A cell that was prepared for a transaction that a shard decides which is not there was locked for good.
#[test]
fn a_cell_is_not_locked_for_a_shard_that_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let change = |value: &[u8]| Change { key: b"x".as_slice().into(), value: Some(value.into()) };
    let write =
        |value: &[u8]| Write { object: OBJECT, cleared: Vec::new(), changes: vec![change(value)].into() };
    let named = [
        (60_000, vec![0]),
        (60_000, vec![]),
        (1, vec![0, 60_000]),
        (0, vec![60_000]),
        (0, vec![0]),
        (0, vec![1, 1]),
    ];
    for ((primary, others), number) in named.into_iter().zip(1..) {
        let snapshot = node.newest();
        let transaction = TransactionId { client: 6, number };
        let commit = Commit { snapshot, writes: vec![write(b"hostile")], ..Commit::default() };
        let others = others.into_iter().map(ShardId).collect();
        let prepare = Prepare { transaction, primary: ShardId(primary), others, commit };
        node.ask_by(HOSTILE, Question::Prepare(prepare));
        node.wait();
        let snapshot = node.newest();
        let commit = Commit { snapshot, writes: vec![write(b"well meant")], ..Commit::default() };
        let transaction = TransactionId { client: 7, number };
        let question = Question::Commit(transaction, Arc::new(commit), Durability::Synced);
        let answer = node.ask_by(CLIENT, question);
        assert!(matches!(answer, Some(Answer::At(_))), "decided by {primary}: {answer:?}");
    }
}

/// What a shard writes down of transactions is kept in objects, too: a cell in these, and it could not be opened again.
#[test]
fn what_a_shard_keeps_for_itself_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let mut number = 0;
    let own = (1 << 32) - 2..1 << 32;
    for object in own.chain([1 << 33]).map(|number| ObjectId::new(ShardId(0), number)) {
        for create in [true, false] {
            let snapshot = node.newest();
            let restructurings = if create { vec![Restructuring::Create { object }] } else { Vec::new() };
            let change = Change { key: [1].into(), value: Some(b"mine".as_slice().into()) };
            let writes = vec![Write { object, cleared: Vec::new(), changes: vec![change].into() }];
            let commit = Commit { snapshot, restructurings, writes, ..Commit::default() };
            number += 1;
            let transaction = TransactionId { client: 4, number };
            let question = Question::Commit(transaction, Arc::new(commit.clone()), Durability::Synced);
            let answer = node.ask_by(HOSTILE, question);
            assert!(!matches!(answer, Some(Answer::At(_))), "{object:?}: {answer:?}");
            // What is prepared is written down.
            let (primary, others) = (ShardId(0), vec![ShardId(1)]);
            let required = vec![(OBJECT, [7].into())];
            let prepared = Commit { snapshot, required, ..Commit::default() };
            let transaction = TransactionId { client: 5, number };
            node.ask_by(
                HOSTILE,
                Question::Prepare(Prepare { transaction, primary, others, commit: prepared }),
            );
            node.ask_by(HOSTILE, Question::Decide(transaction, snapshot, Durability::Synced));
            node.commit();
        }
    }
    node.restart(directory.path());
}

/// Only servers, and only those on the map.
#[test]
fn what_only_servers_may_say_is_not_heard_from_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.open("birds", true);
    for from in [HOSTILE, STRANGER] {
        for message in [
            Message::Ask(MapRequest::Database { name: "fish".try_into().unwrap(), create: true }),
            Message::Ask(MapRequest::Replicate(Replication { replicas: 3, ..Replication::default() })),
            Message::Clock { number: 1, reached: Timestamp(1 << 30), goes_on: 0, oldest: Timestamp(0) },
            Message::Map { map: Map { version: 1 << 20, ..Map::default() }, about: None },
        ] {
            assert!(node.hear(from, message.clone()).is_empty(), "{message:?}");
        }
    }
    node.hear(HOSTILE, Message::Ask(MapRequest::Join("c:1".into())));
    let map = node.server.map();
    assert_eq!((map.servers.len(), map.databases.len()), (1, 1), "{map:?}");
    assert_eq!(map.replication, Replication::default());
    node.commit();
}

/// Databases had a part on a server that was never there, also after a restart, and a drain of it never ended.
#[test]
fn who_cannot_be_reached_is_not_on_the_map() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    let before = node.server.map().servers.clone();
    // A member says that it has moved, too.
    for server in [STRANGER, MEMBER] {
        assert!(node.hear(server, Message::Ask(MapRequest::Join("c:1".into()))).is_empty());
        assert_eq!(node.server.map().servers, before);
        let called = node.joining.pop();
        assert_eq!(called, Some(Joining { server, address: "c:1".into() }));
    }
    node.join(STRANGER, "c:1");
    node.join(MEMBER, "d:1");
    assert_eq!(node.server.map().servers.len(), 3);
}

/// Its clients may hold snapshots still, and nothing that they see may be forgotten, nor anything kept for ever.
#[test]
fn who_was_drained_is_told_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.join(MEMBER, "b:1");
    node.hear(CLIENT, Message::Ask(MapRequest::Drain("b:1".into())));
    assert!(!node.server.map().servers.contains_key(&MEMBER), "{:?}", node.server.map());
    let question = || Message::Clock { number: 1, reached: Timestamp(0), goes_on: 0, oldest: Timestamp(0) };
    assert!(matches!(node.hear(MEMBER, question())[..], [(MEMBER, Message::Time { .. })]));
    assert!(node.hear(HOSTILE, question()).is_empty());
}

/// A database that had more commits, before it was shared, than any client can have missed: the clock is not there yet.
#[test]
fn a_database_of_many_commits_is_opened_by_who_has_a_snapshot_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::with_member(directory.path());
    node.commit();
    let late = Timestamp(1 << 34);
    node.hear(MEMBER, Message::Clock { number: 1, reached: late, goes_on: 0, oldest: late });
    node.commit();
    let commits = node.commits;
    drop(node);
    let (birds, options) = (directory.path().join("birds"), Options::default());
    let at = fulmar_kv::Database::open(&birds, &options).unwrap().newest();
    assert!(at > late);
    let (single, _kept) = Single::open(&birds, &options, Some(at)).unwrap();
    let server = Server::first((ME, ""), Box::new(single), Replication::default()).unwrap();
    let mut node = Node { commits, ..Node::of(server) };
    node.open("shared", false);
    assert!(matches!(node.ask_by(CLIENT, Question::ReopenSnapshot(at)), Some(Answer::At(_))));
    node.commit();
    assert!(node.ask_by(CLIENT, Question::ReopenSnapshot(Timestamp(1 << 36))).is_none());
}

/// Messages of all kinds in any order, by clients, by a server that is not on the map, and by one that is: no panic, and whoever means
/// well commits and reads, also after a restart. `FULMAR_ROUNDS` says how often.
#[test]
fn whatever_is_said_others_go_on() {
    let rounds = std::env::var("FULMAR_ROUNDS").map_or(20, |rounds| rounds.parse().expect("a number"));
    for seed in 0..rounds {
        // Shown with whatever fails.
        println!("seed {seed}");
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random::new(seed);
        let mut node = Node::with_member(directory.path());
        let mut read = 0;
        for turn in 0..100_000 {
            let message = if random.below(20) == 0 {
                said::question(&mut random, 1 << 40 | turn, node.commits, OBJECT)
            } else {
                let Ok(message) = Message::decode(&said::bytes(&mut random, OBJECT)) else { continue };
                message
            };
            let from = [HOSTILE, STRANGER, MEMBER][random.index(3)];
            // Who may say that it is a server on the map says where everything is.
            let is_map = matches!(message, Message::Map { .. } | Message::Ask(MapRequest::Drain(_)));
            if !(is_map && from == MEMBER) {
                node.hear(from, message);
                read += 1;
            }
            if random.below(200) == 0 {
                node.wait();
                node.commit();
            }
        }
        assert!(read > 300, "seed {seed}: only {read} messages");
        node.wait();
        node.commit();
        node.restart(directory.path());
    }
}

/// A change of one cell beside the rows.
pub(crate) fn cell(snapshot: Timestamp, value: &[u8]) -> Commit {
    changes(snapshot, vec![Change { key: b"cell".as_slice().into(), value: Some(value.into()) }])
}

/// Changes of some cells.
pub(crate) fn changes(snapshot: Timestamp, changes: Vec<Change>) -> Commit {
    let write = Write { object: OBJECT, cleared: Vec::new(), changes: changes.into() };
    Commit { snapshot, writes: vec![write], ..Commit::default() }
}

/// A client whose machine has slept asks again for what it was not told of when nobody remembers that: a commit that had read nothing
/// undid what others had done since, and of a decision it was told that it had not taken place.
#[test]
fn nothing_is_done_again_or_denied_for_who_has_slept() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.open("birds", true);
    node.commit();
    let transaction = |client| TransactionId { client, number: 1 };
    let unread = |client, value, after| {
        let (commit, basis) = (cell(Timestamp(0), value), Basis { after, ..Basis::default() });
        Question::CommitUnread(transaction(client), Arc::new(commit), basis, Durability::Synced)
    };
    let is_done = |answer: &Option<Answer>| matches!(answer, Some(Answer::At(_)));
    let slept = node.newest();
    let answer = node.ask_by(CLIENT, unread(1, b"old", slept));
    assert!(is_done(&answer), "{answer:?}");
    let (snapshot, primary) = (node.newest(), ShardId(0));
    let commit = cell(snapshot, b"newer");
    let prepare = Prepare { transaction: transaction(2), primary, others: Vec::new(), commit };
    let Some(Answer::At(at)) = node.ask_by(CLIENT, Question::Prepare(prepare)) else { panic!("prepared") };
    let decide = Question::Decide(transaction(2), at, Durability::Synced);
    let answer = node.ask_by(CLIENT, decide.clone());
    assert!(is_done(&answer), "{answer:?}");
    for _ in 0..25 {
        node.wait();
    }
    for question in [unread(1, b"old", slept), decide] {
        let answer = node.ask_once_or_again(CLIENT, true, question);
        assert!(matches!(answer, Some(Answer::Unknown)), "{answer:?}");
    }
    // What was first asked for since would be remembered.
    let awake = node.newest();
    let answer = node.ask_once_or_again(CLIENT, true, unread(3, b"newest", awake));
    assert!(is_done(&answer), "{answer:?}");
}

/// It waited for half a minute, whatever its user's time-out said, and kept all others out meanwhile.
#[test]
fn who_wants_to_be_alone_waits_no_longer_than_a_second_for_who_is_silent() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::first(directory.path());
    node.open("birds", true);
    node.commit();
    let (snapshot, primary) = (node.newest(), ShardId(0));
    let transaction = TransactionId { client: 2, number: 1 };
    let prepare = Prepare { transaction, primary, others: Vec::new(), commit: cell(snapshot, b"late") };
    assert!(matches!(node.ask_by(HOSTILE, Question::Prepare(prepare)), Some(Answer::At(_))));
    assert!(node.ask_by(CLIENT, Question::Exclude(Exclusion::Begin)).is_none(), "it waits");
    let excluded = |sent: &[(NodeId, Message)]| format!("{sent:?}").contains("Excluded");
    assert!(!excluded(&node.pass(Duration::from_millis(750))), "for a moment it does");
    assert!(excluded(&node.pass(Duration::from_millis(500))));
    let looks = node.ask_by(HOSTILE, Question::Exclude(Exclusion::Look));
    assert!(matches!(looks, Some(Answer::Granted)), "others may go on: {looks:?}");
    node.commit();
}
