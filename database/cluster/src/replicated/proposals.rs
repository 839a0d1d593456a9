//! What a leader has written, and its replicas may not have yet.
//!
//! *Known as:* proposals in flight.

use super::{Entries, Operation};
use fulmar_kv::engine::{Batch, Engine, EngineWrite};
use fulmar_kv::{Error, ObjectId};
use fulmar_replication::View;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

/// No further batch is asked for together with those that take so many bytes; and one that takes more goes in parts.
const OPERATION_BYTES: usize = if cfg!(test) { 200 } else { 1 << 20 };
/// The most that a commit may change: it stays in each replica's memory until it is whole. While no majority of them is there, their leader
/// keeps no more than this for them, and one batch.
pub(crate) const LARGEST: u64 = if cfg!(test) { 20_000 } else { 256 << 20 };
/// What their leader keeps for replicas that are slow and yet go on, and one batch.
pub(super) const MOST_WAITING: u64 = 4 * LARGEST;

/// The writes of the leader of a view.
pub(crate) struct Proposals {
    view: View,
    /// How many batches it has made…
    written: u64,
    /// …how many of them it has asked the replicas to take, how many of those they have taken…
    asked: u64,
    taken: u64,
    /// …how many of these are committed here, and how many are in the engine…
    committed: u64,
    stored: u64,
    /// …and those that it has not asked for, of so many bytes.
    unasked: VecDeque<Batch>,
    unasked_bytes: u64,
    /// The replicas have committed nothing for a while, though they were asked to.
    is_stalled: bool,
    /// An operation that goes in parts.
    parted: Option<Parted>,
    /// What is not in the engine here yet; nothing, if it was removed.
    entries: BTreeMap<(ObjectId, u64), Written<Option<Vec<u8>>>>,
    facts: BTreeMap<&'static str, Written<Vec<u8>>>,
}

/// An operation whose encoding goes in parts, up to `begun` so far. With the last the leader has asked for the batches up to
/// `upto`.
struct Parted {
    encoded: Vec<u8>,
    begun: usize,
    upto: u64,
}

impl Parted {
    fn next(&mut self, view: View) -> Operation {
        let rest = &self.encoded[self.begun..];
        let bytes = rest[..rest.len().min(OPERATION_BYTES)].to_vec();
        self.begun += bytes.len();
        Operation::Part { view, bytes, is_last: self.begun == self.encoded.len() }
    }
}

/// What was written last, and in which batch.
struct Written<T> {
    batch: u64,
    value: T,
}

impl Proposals {
    /// So many batches of the leader of this view are committed here, and about to be in the engine.
    pub(super) fn is_committed(&mut self, view: View, upto: u64) {
        if view == self.view {
            self.committed = upto;
        }
    }

    /// What is committed here is in the engine.
    pub(super) fn is_stored(&mut self) {
        if self.stored < self.committed {
            self.stored = self.committed;
            self.entries.retain(|_, entry| entry.batch > self.stored);
            self.facts.retain(|_, fact| fact.batch > self.stored);
        }
    }

    fn write(&mut self, batch: Batch) {
        self.written += 1;
        let number = self.written;
        for write in &batch.writes {
            match write {
                EngineWrite::Put { object, sequence, entry } => {
                    let entry = Written { batch: number, value: Some(entry.clone()) };
                    self.entries.insert((*object, *sequence), entry);
                }
                EngineWrite::Remove { object, sequence } => {
                    self.entries.insert((*object, *sequence), Written { batch: number, value: None });
                }
                EngineWrite::Fact { name, value } => {
                    self.facts.insert(name, Written { batch: number, value: value.clone() });
                }
            }
        }
        self.unasked_bytes += batch.bytes();
        self.unasked.push_back(batch);
    }
}

/// As the leader of a view sees it.
impl Entries {
    /// What the leader of this view writes is kept from now on, and nothing of another.
    pub(crate) fn lead(&self, view: View) {
        let mut state = self.0.state.lock();
        state.proposals = Some(Proposals {
            view,
            written: 0,
            asked: 0,
            taken: 0,
            committed: 0,
            stored: 0,
            unasked: VecDeque::new(),
            unasked_bytes: 0,
            is_stalled: false,
            parted: None,
            entries: BTreeMap::new(),
            facts: BTreeMap::new(),
        });
    }

    /// This server leads no more.
    pub(crate) fn follow(&self) {
        self.0.state.lock().proposals = None;
    }

    /// What is to be asked of the replicas next, if anything is.
    pub(crate) fn next_operation(&self) -> Option<Operation> {
        let mut state = self.0.state.lock();
        let proposals = state.proposals.as_mut()?;
        if proposals.parted.is_none() {
            let most = OPERATION_BYTES as u64;
            let mut batch = proposals.unasked.pop_front()?;
            let (mut bytes, mut upto) = (batch.bytes(), proposals.asked + 1);
            while let Some(next) = proposals.unasked.pop_front_if(|next| bytes + next.bytes() <= most) {
                bytes += next.bytes();
                batch.writes.extend(next.writes);
                upto += 1;
            }
            proposals.unasked_bytes -= bytes;
            let operation = Operation::Write { view: proposals.view, upto, batch };
            if bytes <= most {
                proposals.asked = upto;
                return Some(operation);
            }
            proposals.parted = Some(Parted { encoded: operation.encode(), begun: 0, upto });
        }
        let parted = proposals.parted.as_mut()?;
        let part = parted.next(proposals.view);
        if parted.begun == parted.encoded.len() {
            proposals.asked = parted.upto;
            proposals.parted = None;
        }
        Some(part)
    }

    /// The replicas have taken what they were asked to.
    pub(crate) fn is_taken(&self) {
        if let Some(proposals) = &mut self.0.state.lock().proposals {
            proposals.taken = proposals.asked;
        }
    }

    /// Whether the replicas commit nothing, though they are asked to.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        if let Some(proposals) = &mut self.0.state.lock().proposals {
            proposals.is_stalled = is_stalled;
        }
    }

    /// Whether there is room for more writes: for more of them while replicas are only slow.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.0.state.lock();
        let Some(proposals) = &state.proposals else { return true };
        let parted = proposals.parted.as_ref().map_or(0, |parted| parted.encoded.len() as u64);
        let most = if proposals.is_stalled { LARGEST } else { MOST_WAITING };
        proposals.unasked_bytes + parted < most
    }

    /// How many batches were made, and how many of these the replicas have taken.
    pub(crate) fn progress(&self) -> (u64, u64) {
        self.0
            .state
            .lock()
            .proposals
            .as_ref()
            .map_or((0, 0), |proposals| (proposals.written, proposals.taken))
    }
}

/// Why replicas do not take a commit.
pub(crate) fn too_large(path: &Path, bytes: u64) -> Error {
    let what = format!("a commit of {bytes} bytes is more than replicas take, {LARGEST}; write less at once");
    Error::io(path, io::Error::new(io::ErrorKind::FileTooLarge, what))
}

/// An engine for the leader of a view: what it writes is for all replicas.
pub(crate) struct Leading {
    pub(crate) entries: Entries,
    pub(crate) view: View,
}

impl Engine for Leading {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        if batch.bytes() > self.largest() && !batch.is_owed {
            return Err(too_large(self.entries.path(), batch.bytes()));
        }
        let mut state = self.entries.0.state.lock();
        match state.proposals.as_mut().filter(|proposals| proposals.view == self.view) {
            Some(proposals) => {
                proposals.write(batch);
                Ok(())
            }
            None => {
                let what = "another server leads this shard by now";
                Err(Error::io(self.entries.path(), io::Error::other(what)))
            }
        }
    }

    /// Commits may change as much as [`LARGEST`], and what they change may have to be written anew.
    fn largest(&self) -> u64 {
        2 * LARGEST
    }

    /// What is written survives when the replicas have taken it.
    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        let state = self.entries.0.state.lock();
        let mut entries = BTreeMap::new();
        self.entries.0.engine.load(object, &mut |sequence, entry| {
            entries.insert(sequence, entry.to_vec());
        })?;
        let proposals = state
            .proposals
            .iter()
            .flat_map(|proposals| proposals.entries.range((object, 0)..=(object, u64::MAX)));
        for ((_, sequence), entry) in proposals {
            match &entry.value {
                Some(entry) => drop(entries.insert(*sequence, entry.clone())),
                None => drop(entries.remove(sequence)),
            }
        }
        entries.iter().for_each(|(sequence, entry)| visit(*sequence, entry));
        Ok(())
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        let mut from = from;
        loop {
            let stored = self.entries.next(from)?;
            let proposals = {
                let state = self.entries.0.state.lock();
                let mut rest =
                    state.proposals.iter().flat_map(|proposals| proposals.entries.range((from, 0)..));
                rest.next().map(|((object, _), _)| *object)
            };
            let Some(first) = stored.into_iter().chain(proposals).min() else { return Ok(None) };
            let mut is_there = false;
            self.load(first, &mut |_, _| is_there = true)?;
            if is_there {
                return Ok(Some(first));
            }
            from = ObjectId(first.0 + 1);
        }
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let state = self.entries.0.state.lock();
        match state.proposals.as_ref().and_then(|proposals| proposals.facts.get(name)) {
            Some(fact) => Ok(Some(fact.value.clone())),
            None => self.entries.0.engine.fact(name),
        }
    }

    fn bytes(&self) -> u64 {
        self.entries.0.engine.bytes()
    }
}
