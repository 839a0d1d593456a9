//! How much memory messages take that are nothing but lists.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

use fulmar_cluster::{
    Answer, Chunk, DatabaseName, DatabaseNumber, Found, Load, Map, Message, NodeId, Placement, Question,
    ShardStatus, Status,
};
use fulmar_coding::put_varint;
use fulmar_dbt::{Reshape, Shape};
use fulmar_kv::{
    Basis, Changes, Commit, Durability, Interval, Key, Object, ObjectId, Prepare, Restructuring, ShardId,
    Timestamp, TransactionId, Write,
};
use fulmar_replication::{ClientId, Entry, Log, SequenceNumber, Summary, View};
use fulmar_transport::Wire;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// Items of a list.
const ITEMS: u32 = 1 << 21;

/// What proc_pid_status(5) says, bytes.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

/// The file with the message that a process is to read.
const MESSAGE: &str = "FULMAR_MESSAGE";

/// The most memory that a process takes for reading these bytes, over what it had.
fn taken(bytes: &[u8]) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("message");
    fs::write(&file, bytes).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "a_message_is_read", "--nocapture"]).env(MESSAGE, file);
    let output = process.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let taken = told.lines().find_map(|line| line.strip_prefix("taken: "));
    taken.unwrap_or_else(|| panic!("{told}")).parse().unwrap()
}

/// What [`taken`] runs, in a process that has freed nothing yet; by itself it does nothing.
#[test]
fn a_message_is_read() {
    let Some(file) = std::env::var_os(MESSAGE) else { return };
    let bytes = fs::read(file).unwrap();
    let before = memory("VmRSS:");
    // proc_pid_clear_refs(5): the peak is from now on.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let message = Message::decode(&bytes);
    // A line of its own.
    println!("\ntaken: {}", memory("VmHWM:").saturating_sub(before));
    drop(message);
}

fn question(question: Question) -> Message {
    Message::Question { number: 1, again: false, database: DatabaseNumber(0), shard: ShardId(0), question }
}

fn commit(commit: Commit) -> Message {
    let transaction = TransactionId { client: 1, number: 1 };
    question(Question::Commit(transaction, Arc::new(commit), Durability::Synced))
}

fn written(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// An object of as many deleted cells as there are items, as it is stored.
fn deleted_cells(object: ObjectId) -> Vec<u8> {
    let mut bytes = vec![0];
    put_varint(&mut bytes, object.0);
    Interval::new([].into(), None).encode(&mut bytes);
    put_varint(&mut bytes, ITEMS.into());
    for key in (0..ITEMS).map(u32::to_be_bytes) {
        // Three bytes of key, no value, at 1.
        bytes.extend([3, 0, 1]);
        bytes.extend(&key[1..]);
    }
    bytes
}

#[test]
fn a_message_takes_a_small_multiple_of_its_bytes() {
    let object = |n: u64| ObjectId::new(ShardId(0), n);
    let cells = || (0..ITEMS).map(|_| (object(0), Key::from([]))).collect::<Vec<_>>();
    let keys: Vec<_> = (0..ITEMS).map(u32::to_be_bytes).collect();
    let many = |value: Option<&'static [u8]>| keys.iter().map(move |key| (&key[1..], value));
    let transaction = TransactionId { client: 1, number: 1 };
    let one = |cleared, changes: Changes| Commit {
        writes: vec![Write { object: object(2), cleared, changes }],
        ..Commit::default()
    };
    let empty = |n| Write { object: object(n), cleared: Vec::new(), changes: Changes::default() };
    let tiny = |n| Write { changes: [(&[][..], None)].into_iter().collect(), ..empty(n) };
    let shards = (0..u16::MAX).map(ShardId).collect();
    let basis = Basis { present: cells(), ..Basis::default() };
    let placement = || Placement {
        name: DatabaseName::try_from("a").unwrap(),
        founded: 0,
        shards: Vec::new(),
        replicated: BTreeMap::new(),
    };
    let databases = (0..1 << 18).map(|n| (DatabaseNumber(n), placement())).collect();
    let loads = (0..1 << 20).map(|n| (NodeId(n), Load::default())).collect();
    let objects = (0..ITEMS).map(|_| (object(0), Arc::from([]))).collect();
    let among_replicas = |message| {
        let (database, shard) = (DatabaseNumber(0), ShardId(0));
        Message::Replication { database, shard, message: Box::new(message) }
    };
    let (view, nowhere) = (View::first_of(0), SequenceNumber(0));
    let entry = |number| Entry {
        client: ClientId(1),
        session: nowhere,
        number,
        operation: Arc::from([]),
        is_query: false,
    };
    let entries = || (0..u64::from(ITEMS)).map(|_| entry(1));
    let mut log = Log::after(nowhere, Summary::default());
    entries().for_each(|entry| {
        log.append(entry);
    });
    let shard = ShardStatus {
        database: DatabaseNumber(0),
        shard: ShardId(0),
        reads: 0,
        commits: 0,
        prepared: 0,
        cached: 0,
        nodes: 0,
    };
    let status = |shards, failures| {
        let (now, watermark, snapshots) = (Timestamp(1), Timestamp(1), 0);
        Message::Status(Status { now, watermark, snapshots, shards, failures })
    };
    let cases = [
        ("operations", {
            let (from, before) = (SequenceNumber(1), Summary::default());
            among_replicas(fulmar_replication::Message::Prepare {
                view,
                from,
                before,
                entries: entries().collect(),
                committed: nowhere,
            })
        }),
        ("log", {
            let end = (log.last(), Summary::default());
            among_replicas(fulmar_replication::Message::DoViewChange {
                view,
                last_normal: view,
                log,
                end,
                ordered: nowhere,
                committed: nowhere,
            })
        }),
        ("keys of a cut", {
            let keys = (0..ITEMS).map(|_| Key::from([])).collect();
            let (root, leaf, low) = (object(1), object(2), Key::from([]));
            let reshape = Reshape { root, leaf, low, shape: Shape::Split(keys) };
            Message::Reshape { database: DatabaseNumber(0), reshape }
        }),
        ("shards of a status", status(vec![shard; ITEMS as usize], Vec::new())),
        ("failures of a status", status(Vec::new(), vec![String::new(); ITEMS as usize])),
        ("required", commit(Commit { required: cells(), ..Commit::default() })),
        ("touched", commit(Commit { touched: cells(), ..Commit::default() })),
        ("present", question(Question::CommitUnread(transaction, Arc::default(), basis, Durability::Synced))),
        ("changes", commit(one(Vec::new(), many(Some(&[])).collect()))),
        ("deletions", commit(one(Vec::new(), many(None).collect()))),
        (
            "cleared",
            commit(one((0..ITEMS).map(|_| Interval::new([].into(), None)).collect(), Changes::default())),
        ),
        (
            "empty writes",
            commit(Commit { writes: (0..ITEMS.into()).map(empty).collect(), ..Commit::default() }),
        ),
        ("writes", commit(Commit { writes: (0..ITEMS.into()).map(tiny).collect(), ..Commit::default() })),
        ("restructurings", {
            let create = (0..ITEMS.into()).map(|n| Restructuring::Create { object: object(n) });
            commit(Commit { restructurings: create.collect(), ..Commit::default() })
        }),
        ("shards", {
            let commit = Commit::default();
            question(Question::Prepare(Prepare { transaction, primary: ShardId(0), others: shards, commit }))
        }),
        ("map", Message::Map { map: Map { databases, ..Map::default() }, about: None }),
        ("loads", Message::Loads(loads)),
        ("cells of an answer", {
            let object = Object::decode(object(2), &deleted_cells(object(2))).unwrap();
            let answer = Answer::Opened(Timestamp(1), Some(Found::Object(Arc::new(object))));
            Message::Answer { number: 1, answer }
        }),
        ("copied", {
            let (from, upto, bytes) = (object(2), nowhere, deleted_cells(object(2)));
            let chunk = Chunk { from, upto, size: bytes.len() as u64, offset: 0, bytes };
            Message::Copied { database: DatabaseNumber(0), shard: ShardId(0), chunk }
        }),
        ("objects", {
            let (database, shard, last) = (DatabaseNumber(0), ShardId(0), Some((Timestamp(1), 1)));
            Message::HandOver { database, shard, attempt: 0, number: 0, objects, last }
        }),
    ];
    for (name, message) in cases {
        let bytes = written(&message);
        drop(message);
        let (length, taken) = (bytes.len() as u64, taken(&bytes));
        println!("{name}: {length} bytes take {taken}");
        assert!(taken < 18 * length + (1 << 20), "{name}: {length} bytes take {taken}");
    }
}
