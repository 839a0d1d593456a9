//! What replicas hold is what their leaders have written, whatever they forget, roll back and copy.

use super::proposals::{LARGEST, MOST_WAITING};
use super::{Entries, Leading, Operation, Part, REFUSED};
use fulmar_kv::ObjectId;
use fulmar_kv::STATE;
use fulmar_kv::engine::{Batch, Engine, EngineWrite, Memory};
use fulmar_node::Random;
use fulmar_replication::{Record, SequenceNumber, StateMachine, View};
use fulmar_sim::seeds;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const OBJECTS: u64 = 6;

type Model = BTreeMap<(ObjectId, u64), Vec<u8>>;

/// A replica, and how much of the log it has executed and committed.
struct Replica {
    engine: Arc<Memory>,
    entries: Entries,
    executed: u64,
    committed: u64,
}

impl Replica {
    fn new() -> Self {
        let engine = Arc::new(Memory::default());
        let entries = open(&engine);
        Self { engine, entries, executed: 0, committed: 0 }
    }

    /// What is not in its engine it learns again.
    fn restart(&mut self) {
        *self = Self { entries: open(&self.engine), engine: self.engine.clone(), executed: 0, committed: 0 };
    }

    fn execute(&mut self, log: &[Vec<u8>], upto: u64) {
        for number in self.executed + 1..=upto {
            let place = usize::try_from(number - 1).expect("few");
            self.entries.execute(SequenceNumber(number), &log[place]);
        }
        self.executed = self.executed.max(upto);
    }

    fn commit(&mut self, log: &[Vec<u8>], upto: u64) {
        self.execute(log, upto);
        self.committed = self.committed.max(upto);
        self.entries.commit(SequenceNumber(self.committed));
        self.entries.store(&[]).expect("memory");
    }

    /// Writes all that is committed to the engine.
    fn settle(&self) {
        while self.entries.is_behind() {
            self.entries.store(&[]).expect("memory");
        }
    }

    /// Executes what will never be committed.
    fn speculate(&mut self, operation: &Operation) {
        let next = SequenceNumber(self.executed + 1);
        self.entries.execute(next, &operation.encode());
        self.entries.rollback(next);
    }
}

fn open(engine: &Arc<Memory>) -> Entries {
    let engine: Arc<dyn Engine> = engine.clone();
    Entries::open(Path::new("replica"), engine).expect("sound").0
}

fn contents(engine: &dyn Engine) -> Model {
    let mut contents = Model::new();
    for object in (0..OBJECTS).map(ObjectId) {
        let mut visit = |sequence, entry: &[u8]| drop(contents.insert((object, sequence), entry.into()));
        engine.load(object, &mut visit).expect("memory");
    }
    contents
}

fn batch(random: &mut Random, model: &mut Model) -> Batch {
    let mut batch = Batch::default();
    for _ in 0..=random.below(4) {
        let (object, sequence) = (ObjectId(random.below(OBJECTS)), random.below(3));
        if random.below(3) == 0 {
            model.remove(&(object, sequence));
            batch.writes.push(EngineWrite::Remove { object, sequence });
        } else {
            let entry = random.next().to_be_bytes().repeat(if random.below(8) == 0 { 60 } else { 1 });
            model.insert((object, sequence), entry.clone());
            batch.writes.push(EngineWrite::Put { object, sequence, entry });
        }
    }
    batch.writes.push(EngineWrite::Fact { name: STATE, value: random.next().to_be_bytes().into() });
    batch
}

/// A batch that goes in some parts.
fn large(random: &mut Random) -> Batch {
    let entry = random.next().to_be_bytes().repeat(100);
    let writes = (0..OBJECTS).map(|object| EngineWrite::Put {
        object: ObjectId(object),
        sequence: 0,
        entry: entry.clone(),
    });
    Batch { writes: writes.collect(), ..Batch::default() }
}

/// One replica is made of parts of another, while both go on, and begins again now and then.
fn copy(random: &mut Random, log: &[Vec<u8>], source: &mut Replica) -> Replica {
    let (begin, checkpoint) = (source.committed, source.entries.snapshot());
    let from_checkpoint = |replica: &mut Replica| {
        assert!(replica.entries.restore(SequenceNumber(begin), &checkpoint));
        (replica.executed, replica.committed) = (begin, begin);
    };
    let mut copied = Replica::new();
    copied.entries.store(&[Record::Copying(true)]).expect("memory");
    from_checkpoint(&mut copied);
    loop {
        source.commit(log, (source.committed + random.below(4)).min(log.len() as u64));
        let Part { upto, entries, next } = source.entries.part(copied.entries.copied(), 1).expect("memory");
        assert_eq!(upto, SequenceNumber(source.committed));
        copied.entries.replace(next, entries).expect("memory");
        if next.is_none() {
            return copied;
        }
        if random.one_in(4) {
            copied.restart();
            from_checkpoint(&mut copied);
        }
        copied.commit(log, copied.committed + random.below(upto.0 - copied.committed + 1));
    }
}

#[test]
fn replicas_hold_what_their_leaders_write() {
    seeds("replicas_hold_what_their_leaders_write", 0..300, |seed| {
        let random = &mut Random::new(seed.number);
        let mut replicas: Vec<_> = (0..3).map(|_| Replica::new()).collect();
        let (mut log, mut model): (Vec<Vec<u8>>, Model) = (Vec::new(), Model::new());
        let mut view = View::first_of(0);
        for _ in 0..8 {
            // Another leads, which knows all that was committed.
            let leader = random.index(3);
            let before = view;
            view = view.after(1 + random.below(3));
            log.push(Operation::Lead(view).encode());
            replicas[leader].commit(&log, log.len() as u64);
            replicas[leader].settle();
            assert_eq!(replicas[leader].entries.leader(), Some(view));
            let entries = replicas[leader].entries.clone();
            entries.lead(view);
            let front = Leading { entries: entries.clone(), view };
            assert_eq!(contents(&front), model);
            let late = Operation::Write { view: before, upto: 1, batch: batch(random, &mut model.clone()) };
            let number = SequenceNumber(log.len() as u64 + 1);
            assert_eq!(replicas[leader].entries.execute(number, &late.encode()), [REFUSED]);
            for _ in 0..random.below(10) {
                front.write(batch(random, &mut model)).expect("it leads");
                assert_eq!(contents(&front), model);
                if random.below(2) == 0 {
                    let operation = entries.next_operation().expect("it has written");
                    log.push(operation.encode());
                    entries.is_taken();
                }
                let end = log.len() as u64;
                match random.below(4) {
                    0 => {
                        let part = Operation::Part { view, bytes: vec![7], is_last: random.one_in(2) };
                        let never = if random.one_in(2) { &late } else { &part };
                        replicas[random.index(3)].speculate(never);
                    }
                    1 => {
                        let lagging = random.index(3);
                        if lagging != leader {
                            replicas[lagging].restart();
                        }
                    }
                    _ => {
                        let replica = &mut replicas[random.index(3)];
                        let upto = replica.committed + random.below(end - replica.committed + 1);
                        replica.commit(&log, upto);
                    }
                }
                assert_eq!(contents(&front), model);
            }
            while let Some(operation) = entries.next_operation() {
                log.push(operation.encode());
            }
            // What is not whole when another leads has never been.
            front.write(large(random)).expect("it leads");
            for _ in 0..random.below(3) {
                log.push(entries.next_operation().expect("there are more parts").encode());
            }
            entries.follow();
            assert!(front.write(Batch::default()).is_err());
        }
        // A copy of one that goes on meanwhile is whole when all that has come since is carried out again.
        let mut source = Replica::new();
        let mut begin = random.below(log.len() as u64);
        source.commit(&log, begin);
        while !source.entries.may_checkpoint() && begin < log.len() as u64 {
            begin += 1;
            source.commit(&log, begin);
        }
        source.settle();
        let copied = copy(random, &log, &mut source);
        replicas.extend([source, copied]);
        for replica in &mut replicas {
            replica.commit(&log, log.len() as u64);
            replica.settle();
            assert_eq!(contents(&*replica.engine), model);
        }
        Ok(())
    });
}

/// Replicas that had made the checkpoint at the end of a group still had the parts of a write that was under way, and those that had begun from
/// it had not: the rest came to both, and only the first carried it out.
#[test]
fn a_group_that_ends_within_a_write_ends_that_everywhere() {
    let random = &mut Random::new(0);
    let (view, next) = (View::first_of(0), View::first_of(1));
    let mut lasted = Replica::new();
    let mut log = vec![Operation::Lead(view).encode()];
    lasted.commit(&log, 1);
    lasted.entries.lead(view);
    let front = Leading { entries: lasted.entries.clone(), view };
    front.write(large(random)).expect("it leads");
    log.extend(std::iter::from_fn(|| lasted.entries.next_operation()).map(|operation| operation.encode()));
    assert!(log.len() > 3, "it goes in parts");
    lasted.commit(&log, 2);
    assert!(!lasted.entries.may_checkpoint());
    let checkpoint = lasted.entries.snapshot();
    let mut begun = Replica::new();
    assert!(begun.entries.restore(SequenceNumber(2), &checkpoint));
    (begun.executed, begun.committed) = (2, 2);
    assert_eq!(begun.entries.snapshot(), checkpoint);
    let write = Operation::Write { view: next, upto: 1, batch: batch(random, &mut Model::new()) };
    log.extend([Operation::Lead(next).encode(), write.encode()]);
    for (number, operation) in (1..).zip(&log).skip(2) {
        let answers = [&mut lasted, &mut begun]
            .map(|replica| replica.entries.execute(SequenceNumber(number), operation));
        let is_done = u8::from(number > log.len() as u64 - 2);
        assert_eq!(answers, [[is_done], [is_done]], "operation {number}");
    }
    for replica in [&mut lasted, &mut begun] {
        replica.executed = log.len() as u64;
        replica.commit(&log, log.len() as u64);
        replica.settle();
    }
    assert_eq!(contents(&*lasted.engine), contents(&*begun.engine));
}

/// What waits for replicas is bounded, and more narrowly while no majority of them is there.
#[test]
fn a_leader_that_nobody_follows_keeps_no_more_than_there_is_room_for() {
    let entries = open(&Arc::new(Memory::default()));
    let view = View::default();
    entries.lead(view);
    let leader = Leading { entries: entries.clone(), view };
    let random = &mut Random::new(0);
    let (mut written, bytes) = (0, large(random).bytes());
    entries.set_stalled(true);
    while entries.has_room() {
        leader.write(large(random)).expect("it leads");
        if written == 0 {
            // What is asked for in parts is still there.
            assert!(matches!(entries.next_operation(), Some(Operation::Part { is_last: false, .. })));
        }
        written += bytes;
    }
    assert!((LARGEST..LARGEST + 2 * bytes).contains(&written), "{written} bytes wait");
    entries.set_stalled(false);
    assert!(entries.has_room(), "they are only slow");
    while entries.has_room() {
        leader.write(large(random)).expect("it leads");
        written += bytes;
    }
    assert!((MOST_WAITING..MOST_WAITING + bytes + LARGEST).contains(&written), "{written} bytes wait");
    while entries.next_operation().is_some() {}
    assert!(entries.has_room(), "nothing waits any more");
}

/// A leader that refused what was prepared would be opened again, refuse it again, and so on: half of a transaction never took place.
#[test]
fn what_is_owed_is_taken_however_large_it_is() {
    let entries = open(&Arc::new(Memory::default()));
    let view = View::default();
    entries.lead(view);
    let leader = Leading { entries: entries.clone(), view };
    let entry = vec![7; usize::try_from(3 * LARGEST).expect("it fits")];
    let writes = vec![EngineWrite::Put { object: ObjectId(1), sequence: 0, entry }];
    let batch = Batch { writes, is_owed: false };
    assert!(leader.write(batch.clone()).expect_err("it is too large").is_of_size());
    leader.write(Batch { is_owed: true, ..batch }).expect("it is owed");
    assert_eq!(contents(&leader).len(), 1);
    assert!(matches!(entries.next_operation(), Some(Operation::Part { is_last: false, .. })));
}
