//! An engine on a disk that fails when told to: what was synced is durable, what was only written is a tail that a
//! loss of power cuts at any batch.

use fulmar_dbt::Error;
use fulmar_kv::ObjectId;
use fulmar_kv::engine::{Batch, Engine, EngineWrite};
use fulmar_node::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// How a disk breaks its promises, to prove that the tests notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Breach {
    /// A loss of power takes a batch that was synced.
    Forgets,
    /// The end of the process takes the newest batch.
    Loses,
    /// A loss of power leaves half of a batch.
    Tears,
}

/// The disk; clones are the same one.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

struct State {
    random: Random,
    durable: Image,
    /// The newest batch in `durable`, and `durable` without it.
    before_last: Image,
    tail: VecDeque<Batch>,
    readable: Image,
    /// Of how many writes or syncs one fails; none if it is zero.
    fault_one_in: u64,
    /// Of how many reads one fails; none if it is zero.
    read_fault_one_in: u64,
    failed: bool,
    breach: Option<Breach>,
}

#[derive(Clone, Default)]
struct Image {
    entries: BTreeMap<(ObjectId, u64), Vec<u8>>,
    facts: BTreeMap<&'static str, Vec<u8>>,
}

impl Image {
    fn apply(&mut self, writes: &[EngineWrite]) {
        for write in writes {
            match write.clone() {
                EngineWrite::Put { object, sequence, entry } => {
                    self.entries.insert((object, sequence), entry);
                }
                EngineWrite::Remove { object, sequence } => {
                    let removed = self.entries.remove(&(object, sequence));
                    assert!(removed.is_some(), "removed an entry that was not there");
                }
                EngineWrite::Fact { name, value } => {
                    self.facts.insert(name, value);
                }
            }
        }
    }
}

impl Disk {
    pub(crate) fn new(seed: u64, breach: Option<Breach>) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: Random::new(seed),
            durable: Image::default(),
            before_last: Image::default(),
            tail: VecDeque::new(),
            readable: Image::default(),
            fault_one_in: 0,
            read_fault_one_in: 0,
            failed: false,
            breach,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// From now on one in `one_in` writes and syncs fails; none, if that is zero.
    pub(crate) fn fail(&self, one_in: u64) {
        self.state().fault_one_in = one_in;
    }

    /// From now on one in `one_in` reads fails; none, if that is zero.
    pub(crate) fn fail_reads(&self, one_in: u64) {
        self.state().read_fault_one_in = one_in;
    }

    /// Whether a write or sync has failed since the last crash.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed
    }

    /// The objects of which there is anything.
    pub(crate) fn objects(&self) -> BTreeSet<ObjectId> {
        self.state().readable.entries.keys().map(|(object, _)| *object).collect()
    }

    /// The process ends: what was written stays.
    pub(crate) fn kill(&self) {
        let state = &mut *self.state();
        state.readable = state.durable.clone();
        if state.breach == Some(Breach::Loses) {
            state.tail.pop_back();
        }
        for batch in &state.tail {
            state.readable.apply(&batch.writes);
        }
        state.failed = false;
    }

    /// The power goes: of what was not synced, some of the first batches stay.
    pub(crate) fn lose_power(&self) {
        let state = &mut *self.state();
        let kept = state.random.index(state.tail.len() + 1);
        let lost = state.tail.split_off(kept);
        state.make_durable();
        match state.breach {
            Some(Breach::Forgets) => state.durable = state.before_last.clone(),
            Some(Breach::Tears) => {
                if let Some(torn) = lost.front() {
                    state.durable.apply(&torn.writes[..torn.writes.len() / 2]);
                }
            }
            Some(Breach::Loses) | None => {}
        }
        state.readable = state.durable.clone();
        state.failed = false;
    }
}

impl State {
    fn make_durable(&mut self) {
        while let Some(batch) = self.tail.pop_front() {
            if self.tail.is_empty() && self.breach.is_some() {
                self.before_last = self.durable.clone();
            }
            self.durable.apply(&batch.writes);
        }
    }

    fn fails(&mut self) -> bool {
        assert!(!self.failed, "the engine was used for writing after it had failed");
        self.failed = self.fault_one_in > 0 && self.random.one_in(self.fault_one_in);
        self.failed
    }
}

impl Engine for Disk {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let state = &mut *self.state();
        if state.fails() {
            // It may have reached the disk all the same, though nobody can read it before the next start.
            if state.random.one_in(2) {
                state.tail.push_back(batch);
            }
            return Err(fault("write"));
        }
        state.readable.apply(&batch.writes);
        state.tail.push_back(batch);
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        let state = &mut *self.state();
        if state.fails() {
            return Err(fault("sync"));
        }
        state.make_durable();
        Ok(())
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        let state = &mut *self.state();
        if state.read_fault_one_in > 0 && state.random.one_in(state.read_fault_one_in) {
            return Err(fault("read"));
        }
        for ((_, sequence), entry) in state.readable.entries.range((object, 0)..=(object, u64::MAX)) {
            visit(*sequence, entry);
        }
        Ok(())
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        Ok(self.state().readable.entries.range((from, 0)..).next().map(|((object, _), _)| *object))
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.state().readable.facts.get(name).cloned())
    }
}

fn fault(what: &str) -> Error {
    Error::Io { path: "(disk)".into(), source: io::Error::other(format!("the {what} failed on purpose")) }
}
