use super::*;
use fulmar_node::{Lsn, NodeId, Outbox, Process, Random, Time};
use fulmar_replication::applications::Timestamps;
use fulmar_replication::{
    Checkpoint, ClientId, Entry, Group, Member, Message, Options, Protocol, Replica, SequenceNumber, View,
};
use std::fs;
use std::sync::Arc;

const ENTRIES: usize = 40;

type One = Replica<Timestamps>;

fn one(records: &[Record]) -> One {
    let group = Group::new([NodeId(1)], Protocol::Viewstamped).expect("one");
    let member = Member { node: NodeId(1), incarnation: 0 };
    let options = Options { checkpoint: 1, ..Options::default() };
    Replica::new(member, group, options, Timestamps::default(), records)
}

/// What a group of one writes down, each time that it has nothing left to do.
fn batches() -> Vec<Vec<Record>> {
    let (mut replica, mut out) = (one(&[]), Outbox::after(Lsn(0)));
    replica.start(Time::ZERO, &mut out);
    let mut batches = Vec::new();
    let mut asked = 0;
    loop {
        let records = out.records.clone();
        let (upto, timers) = (out.logged(), std::mem::take(&mut out.timers));
        out.clear();
        timers.into_iter().for_each(|(timer, _)| replica.expire(Time::ZERO, timer, &mut out));
        if !records.is_empty() {
            batches.push(records);
            replica.durable(Time::ZERO, upto, &mut out);
        } else if out.records.is_empty() && asked < ENTRIES {
            asked += 1;
            let request = Message::Request {
                client: ClientId(1),
                epoch: 0,
                session: SequenceNumber(0),
                number: asked as u64,
                operation: Timestamps::take(1).into(),
                is_query: false,
            };
            replica.receive(Time::ZERO, NodeId(9), request, &mut out);
        } else if out.records.is_empty() {
            return batches;
        }
    }
}

fn written() -> (tempfile::TempDir, PathBuf, Vec<Vec<Record>>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    Journal::create(&path).expect("a file");
    let batches: Vec<_> = batches().into_iter().flatten().map(|record| vec![record]).collect();
    let is_small = |batch: &&Vec<Record>| !matches!(batch[0], Record::Checkpoint(_));
    (directory, path, batches.iter().filter(is_small).cloned().collect())
}

fn append(path: &Path, batches: &[Vec<Record>]) {
    let (mut journal, _) = Journal::open(path).expect("it is sound");
    for batch in batches {
        journal.append(batch).and_then(|()| journal.sync()).expect("it is written");
    }
}

fn kept(batches: &[Vec<Record>]) -> Vec<Record> {
    let mut kept = Memory::default();
    batches.iter().flatten().for_each(|record| kept.note(record));
    kept.records()
}

fn read(path: &Path) -> Result<Vec<Record>, JournalError> {
    Journal::open(path).map(|(_, records)| records)
}

#[test]
fn the_torn_end_is_cut_off() {
    let (_directory, path, batches) = written();
    append(&path, &batches[..4]);
    let sound = fs::read(&path).expect("it is there");
    append(&path, &batches[4..5]);
    let all = fs::read(&path).expect("it is there");
    for length in sound.len()..all.len() {
        fs::write(&path, &all[..length]).expect("it is torn");
        assert_eq!(read(&path).expect("its beginning is sound"), kept(&batches[..4]), "{length}");
        assert_eq!(fs::read(&path).expect("it is there"), sound);
        append(&path, &batches[4..5]);
        assert_eq!(fs::read(&path).expect("it is there"), all);
    }
    // What the file system made longer, and did not fill.
    for place in sound.len()..all.len() {
        let mut torn = all.clone();
        torn[place..].fill(0);
        fs::write(&path, [&torn[..], &[0; 99]].concat()).expect("it is torn");
        let found = read(&path).expect("its beginning is sound");
        assert!([kept(&batches[..4]), kept(&batches[..5])].contains(&found), "{place}");
    }
}

#[test]
fn damage_before_the_end_is_refused() {
    let (_directory, path, batches) = written();
    append(&path, &batches[..4]);
    let end = fs::read(&path).expect("it is there").len();
    append(&path, &batches[4..6]);
    let sound = fs::read(&path).expect("it is there");
    for place in 0..end {
        let mut bytes = sound.clone();
        bytes[place] ^= 0x10;
        fs::write(&path, &bytes).expect("it is damaged");
        let complaint = read(&path).expect_err("it is damaged").to_string();
        assert!(complaint.contains("journal: damaged at byte"), "{place}: {complaint}");
        assert_eq!(fs::read(&path).expect("it is there"), bytes, "and left as it is");
    }
}

#[test]
fn a_checkpoint_makes_the_journal_short() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("journal");
    Journal::create(&path).expect("a file");
    assert_eq!(read(&path).expect("it is sound"), []);
    let batches = batches();
    let mut lengths = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        append(&path, std::slice::from_ref(batch));
        assert_eq!(read(&path).expect("it is sound"), kept(&batches[..=number]));
        lengths.push(fs::metadata(&path).expect("it is there").len());
    }
    assert!(lengths.iter().all(|length| *length < 300), "{lengths:?}");
}

/// The entries and checkpoints of a group of one.
fn history() -> (Vec<Entry>, Vec<Arc<Checkpoint>>) {
    let (mut entries, mut checkpoints) = (Vec::new(), Vec::new());
    for record in batches().into_iter().flatten() {
        match record {
            Record::Append(entry) => entries.push(entry),
            Record::Checkpoint(checkpoint) => checkpoints.push(checkpoint),
            _ => {}
        }
    }
    assert_eq!((entries.len(), checkpoints.len()), (ENTRIES, ENTRIES));
    (entries, checkpoints)
}

fn state(records: &[Record]) -> impl PartialEq + std::fmt::Debug {
    let replica = one(records);
    let after: Vec<_> = replica.log().entries_after(replica.checkpoint().at).cloned().collect();
    let (last, view) = (replica.log().last(), replica.view());
    (view, replica.log().summary(last), last, after, replica.checkpoint().clone(), replica.committed())
}

/// Beside a replica that has read all of them.
#[test]
fn what_is_kept_comes_to_the_same() {
    let (entries, checkpoints) = history();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut records, mut kept) = (Vec::new(), Memory::default());
        let (mut at, mut last, mut view) = (0, 0, 0);
        while last < ENTRIES as u64 - 1 {
            let step = match random.below(8) {
                0 => {
                    last = at + random.below(last - at + 1);
                    vec![Record::Truncate(SequenceNumber(last))]
                }
                1 => {
                    view += random.below(2);
                    let normal = view.saturating_sub(random.below(2));
                    let of = |number| View { epoch: 0, number };
                    vec![Record::View { view: of(view), last_normal: of(normal) }]
                }
                2 => vec![Record::Ordered(SequenceNumber(at + random.below(last - at + 1)))],
                3 if random.one_in(2) => {
                    // Its own, or one of what it has missed.
                    at = (at + 1 + random.below(4)).min(ENTRIES as u64);
                    let checkpoint =
                        Record::Checkpoint(checkpoints[usize::try_from(at).expect("few") - 1].clone());
                    if at > last {
                        last = at;
                        vec![checkpoint, Record::Truncate(SequenceNumber(at))]
                    } else {
                        vec![checkpoint]
                    }
                }
                _ => {
                    last += 1;
                    vec![Record::Append(entries[usize::try_from(last).expect("few") - 1].clone())]
                }
            };
            step.iter().for_each(|record| kept.note(record));
            records.extend(step);
            assert_eq!(state(&kept.records()), state(&records), "seed {seed}: {records:?}");
        }
    }
}
