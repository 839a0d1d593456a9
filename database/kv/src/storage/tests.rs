use super::Storage;
use crate::core::{Outcome, Outcomes};
use crate::engine::{Batch, Engine, Memory};
use crate::{
    Commit, Error, ObjectId, Prepare, Refusal, Restructuring, ShardId, Timestamp, TransactionId, Write,
};
use fulmar_locks::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A disk that loses what is not synced, and takes nothing when it is full.
#[derive(Clone, Default)]
struct Disk {
    is_full: Arc<AtomicBool>,
    largest: Option<u64>,
    synced: Arc<Mutex<Vec<Batch>>>,
    written: Arc<Mutex<Vec<Batch>>>,
}

struct OnDisk(Memory, Disk);

impl Disk {
    fn open(&self) -> Storage {
        self.written.lock().clear();
        let memory = Memory::default();
        self.synced.lock().iter().for_each(|batch| memory.write(batch.clone()).expect("memory"));
        let engine = Box::new(OnDisk(memory, self.clone()));
        Storage::on(engine, Path::new("lossy"), 1 << 20, None, ShardId(0)).expect("memory")
    }
}

impl Engine for OnDisk {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        if self.1.is_full.load(Relaxed) {
            return Err(Error::io(Path::new("lossy"), io::ErrorKind::StorageFull.into()));
        }
        if batch.bytes() > self.largest() && !batch.is_owed {
            return Err(Error::io(Path::new("lossy"), io::ErrorKind::FileTooLarge.into()));
        }
        self.1.written.lock().push(batch.clone());
        self.0.write(batch)
    }
    fn sync(&self) -> Result<(), Error> {
        self.1.synced.lock().append(&mut self.1.written.lock());
        Ok(())
    }
    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.0.load(object, visit)
    }
    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.0.next(from)
    }
    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.fact(name)
    }
    fn largest(&self) -> u64 {
        self.1.largest.unwrap_or(u64::MAX)
    }
}

#[test]
fn names_that_were_lost_are_not_given_again() {
    let disk = Disk::default();
    let mut given = BTreeSet::new();
    for _ in 0..3 {
        let storage = disk.open();
        storage.skip_lost_names().expect("memory");
        // Each is the name of an object that is seen, and lost before it is synced.
        assert!((0..10).all(|_| given.insert(storage.fresh())));
    }
}

#[test]
fn what_was_not_written_has_not_taken_place() {
    let disk = Disk::default();
    let storage = disk.open();
    let create = |number| {
        let object = ObjectId::new(ShardId(0), 100 + number);
        let commit = Commit { restructurings: vec![Restructuring::Create { object }], ..Commit::default() };
        (TransactionId { client: 7, number }, commit)
    };
    let (first, commit) = create(1);
    let at = storage.execute_for(first, &commit).expect("room");
    assert_eq!(storage.outcome(first), Some(Outcome::Committed(at)));
    disk.is_full.store(true, Relaxed);
    let (second, commit) = create(2);
    storage.execute_for(second, &commit).expect_err("no room");
    // Nor can anything be told of those before, whatever they are asked for.
    for transaction in [first, second] {
        assert_eq!(storage.outcome(transaction), None);
    }
    assert!(storage.may_have_committed(at));
    disk.is_full.store(false, Relaxed);
    storage.sync_all().expect_err("not all is there");
    // What is there may be told by who waited for it.
    assert!(storage.unsynced().is_none());
    assert_eq!(disk.open().outcome(first), Some(Outcome::Committed(at)));
    assert_eq!(disk.open().outcome(second), None);
}

/// A shard that has come from elsewhere knows nothing of what its clients were told there, also when it is opened again.
#[test]
fn what_was_carried_out_elsewhere_may_have_taken_place() {
    let disk = Disk::default();
    let arrived = disk.open();
    arrived.inherit(Timestamp(50), 200).expect("room");
    arrived.sync_all().expect("room");
    for storage in [disk.open(), disk.open()] {
        for _ in 0..3 {
            assert!(storage.may_have_committed(Timestamp(49)) && !storage.may_have_committed(Timestamp(50)));
            // Whoever asks so late has slept.
            storage.outcomes(Outcomes::age);
        }
    }
}

/// A message that comes late asks the next leader for what the last one has denied.
#[test]
fn what_was_denied_is_not_done_by_who_opens_it_next() {
    let disk = Disk::default();
    let storage = disk.open();
    let [first, second, third] = [1, 2, 3].map(|number| TransactionId { client: 7, number });
    let at = storage.execute_for(first, &Commit::default()).expect("room");
    storage.refuse(second).expect("room");
    storage.sync_all().expect("room");
    let next = disk.open();
    assert_eq!(next.outcome(second), Some(Outcome::Aborted));
    // One that was carried out is not denied, nor is a later one forgotten.
    let at = next.execute_for(third, &Commit::default()).expect("room").max(at);
    next.refuse(third).expect("room");
    next.refuse(second).expect("room");
    next.sync_all().expect("room");
    assert_eq!(disk.open().outcome(third), Some(Outcome::Committed(at)));
    assert_eq!(disk.open().outcome(TransactionId { number: 4, ..third }), None);
}

/// A leaf that no commit could change any more, nor any be split, as it has grown before somebody came to split it.
#[test]
fn a_leaf_of_more_than_is_taken_at_once_is_changed_and_split() {
    let disk = Disk { largest: Some(10_000), ..Disk::default() };
    let storage = disk.open();
    let [left, right] = [100, 101].map(|number| ObjectId::new(ShardId(0), number));
    let mut number = 0;
    let mut execute = |commit: &Commit| {
        number += 1;
        storage.execute_for(TransactionId { client: 7, number }, commit).expect("room")
    };
    let restructure = |restructuring| Commit { restructurings: vec![restructuring], ..Commit::default() };
    execute(&restructure(Restructuring::Create { object: left }));
    let value = vec![7; 7_000];
    for key in [&b"a"[..], b"b"] {
        let changes = [(key, Some(&*value))].into_iter().collect();
        let writes = vec![Write { object: left, cleared: Vec::new(), changes }];
        execute(&Commit { snapshot: storage.last(), writes, ..Commit::default() });
    }
    let cuts = vec![(b"b"[..].into(), right)];
    execute(&restructure(Restructuring::Split { object: left, cuts }));
    storage.sync_all().expect("room");
    for (object, key) in [(left, b"a"), (right, b"b")] {
        let object = disk.open().read(object).expect("memory").expect("it is there");
        assert_eq!(object.get(key, storage.last()), Some(&*value));
    }
}

/// Of what is prepared, all that comes of it must be taken.
#[test]
fn what_was_agreed_to_is_owed() {
    let disk = Disk::default();
    let storage = disk.open();
    let owed = || disk.written.lock().drain(..).map(|batch| batch.is_owed).collect::<Vec<_>>();
    for (number, primary) in [(1, ShardId(0)), (2, ShardId(1))] {
        let transaction = TransactionId { client: 7, number };
        let object = ObjectId(100 + number);
        let commit = Commit { restructurings: vec![Restructuring::Create { object }], ..Commit::default() };
        let others = [ShardId(0), ShardId(1)].into_iter().filter(|shard| *shard != primary).collect();
        let at = storage.prepare(&Prepare { transaction, primary, others, commit }).expect("room");
        assert_eq!(owed(), [false]);
        if primary == ShardId(0) {
            storage.decide(transaction, at).expect("it is prepared");
        } else {
            storage.conclude(transaction, Outcome::Committed(at)).expect("it is prepared");
        }
        assert_eq!(owed(), [true]);
    }
}

/// A shard may forget that it keeps others out, but not that somebody has prepared to commit alone.
#[test]
fn nobody_commits_beside_an_exclusive_transaction_that_is_prepared() {
    let disk = Disk::default();
    let storage = disk.open();
    let object = ObjectId::new(ShardId(0), 100);
    let create = Commit { restructurings: vec![Restructuring::Create { object }], ..Commit::default() };
    storage.execute_for(TransactionId { client: 8, number: 1 }, &create).expect("room");
    let transaction = TransactionId { client: 7, number: 1 };
    // It changes nothing in this shard.
    let commit = Commit { snapshot: storage.last(), is_exclusive: true, ..Commit::default() };
    let prepare = Prepare { transaction, primary: ShardId(1), others: vec![ShardId(0)], commit };
    let at = storage.prepare(&prepare).expect("room");
    storage.sync_all().expect("room");
    let changes = [(&b"key"[..], Some(&b"value"[..]))].into_iter().collect();
    let write = Write { object, cleared: Vec::new(), changes };
    let other = Commit { snapshot: at, writes: vec![write], ..Commit::default() };
    let others = TransactionId { client: 8, number: 2 };
    for storage in [storage, disk.open()] {
        assert_eq!(storage.pending(|pending| pending.blocker(&other)), Some(transaction));
        assert!(matches!(storage.execute_for(others, &other), Err(Refusal::Failed(Error::Conflict))));
        storage.conclude(transaction, Outcome::Committed(at)).expect("it is prepared");
        assert!(storage.execute_for(others, &other).expect("room") > at);
    }
}
