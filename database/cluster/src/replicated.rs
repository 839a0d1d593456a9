//! A shard on several servers: entries that all of them hold, and that the one that leads writes.
//!
//! What a shard's commits come to is a sequence of batches for its engine. A replicated shard hands them to a replicated state
//! machine, [`Entries`], instead: the server that leads makes them, over what it has written ahead, and the others
//! only store them. Concurrency control is done once; and a batch is a list of blind writes, which carried out again, or over entries
//! that are newer in part, come to the same as long as all that follow are carried out, too. Recovery and copying rest on that.
//!
//! Who leads is part of the state. A batch names the view whose leader has made it, and is refused once the leader of a later one
//! has announced itself; so no two servers write from different states. Roll back an operation, and keys and the records of
//! transactions are as they were: before it is committed it reaches no engine.

mod journal;
mod left;
mod operation;
mod proposals;
#[cfg(test)]
mod tests;

pub use left::{Left, differences};
pub use operation::Operation;
use operation::{put_writes, writes};
pub(crate) use proposals::{LARGEST, Leading, too_large};

use fulmar_coding::{Reader, put_varint};
use fulmar_kv::engine::{Batch, Engine, EngineWrite, open_engine};
use fulmar_kv::{Error, ObjectId, Options};
use fulmar_locks::Mutex;
use fulmar_replication::{Record, SequenceNumber, StateMachine, View};
use journal::Journal;
use proposals::Proposals;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An operation was carried out…
pub(crate) const DONE: u8 = 1;
/// …or was not, as the leader of a later view has announced itself.
pub(crate) const REFUSED: u8 = 0;

/// The entries of a shard, as one of its replicas holds them.
#[derive(Clone)]
pub struct Entries(Arc<Held>);

struct Held {
    path: PathBuf,
    engine: Arc<dyn Engine>,
    state: Mutex<State>,
}

struct State {
    journal: Journal,
    /// The last leader that has announced itself.
    leader: Option<View>,
    /// What has come of a write of its that is not whole; and whether what is committed ends within one.
    parts: Vec<Vec<u8>>,
    is_within: bool,
    /// Whether the group has ended within a write: then nothing of that leader's follows.
    is_cut: bool,
    /// What is executed and not committed.
    executed: VecDeque<Executed>,
    /// So far it is committed, as far as it is known…
    committed: SequenceNumber,
    /// …and of that this is not in the engine yet.
    due: Due,
    /// If this server leads.
    proposals: Option<Proposals>,
    /// Why the last sync has failed, if it has.
    unsynced: Option<Error>,
}

struct Executed {
    number: SequenceNumber,
    effect: Effect,
    before: Before,
}

/// What an operation does when it is committed.
enum Effect {
    Lead,
    Write { view: View, upto: u64, batch: Batch },
    Part,
}

/// What is to be as it was before an operation if that is rolled back.
enum Before {
    /// Nothing was changed.
    Same,
    Leader(Option<View>, Vec<Vec<u8>>, bool),
    Parts(Vec<Vec<u8>>),
    /// There was a part less.
    Fewer,
}

/// Writes on their way to the engine, a little at a time: whatever goes there at once, nothing else is done meanwhile.
#[derive(Default)]
struct Due(VecDeque<EngineWrite>);

impl Due {
    /// The next of them, about as much as is written at once; or all.
    fn next(&mut self, all: bool) -> Batch {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while (all || bytes < WRITTEN_BYTES)
            && let Some(write) = self.0.pop_front()
        {
            bytes += write.bytes();
            batch.writes.push(write);
        }
        batch
    }

    /// Whether they are no more than is written at once.
    fn are_few(&self) -> bool {
        let mut bytes = 0;
        self.0.iter().all(|write| {
            bytes += write.bytes();
            bytes <= WRITTEN_BYTES
        })
    }
}

/// A part of what a replica holds.
pub(crate) struct Part {
    /// So far that replica has committed.
    pub(crate) upto: SequenceNumber,
    pub(crate) entries: Vec<EngineWrite>,
    /// Where the next part begins, if this is not the last.
    pub(crate) next: Option<ObjectId>,
}

impl Part {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.upto.0);
        put_writes(&mut out, &self.entries);
        if let Some(next) = self.next {
            put_varint(&mut out, next.0);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let (upto, entries) = (SequenceNumber(input.varint()?), writes(&mut input)?);
        let next = if input.is_empty() { None } else { Some(ObjectId(input.varint()?)) };
        input.is_empty().then_some(Self { upto, entries, next })
    }
}

/// What a replica of a shard is kept in, in the directory `path`, made if it is not there.
///
/// # Errors
/// As [`Database::open`](fulmar_kv::Database::open).
pub fn open_replica(path: &Path, options: &Options) -> Result<Arc<dyn Engine>, Error> {
    open_engine(path, options, journal::WRITTEN)
}

/// So many bytes are written to the engine at once.
const WRITTEN_BYTES: u64 = if cfg!(test) { 100 } else { 4 << 20 };

impl Entries {
    /// What is kept in `engine`, which messages call `path`; with what the replica has written down of itself.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and what the engine answers.
    pub fn open(path: &Path, engine: Arc<dyn Engine>) -> Result<(Self, Vec<Record>), Error> {
        let damaged = |what: &str| Error::Corrupt { path: path.into(), what: format!("{what} is damaged") };
        let (journal, records) = Journal::open(&*engine, damaged)?;
        let state = State {
            journal,
            leader: None,
            parts: Vec::new(),
            is_within: false,
            is_cut: false,
            executed: VecDeque::new(),
            committed: SequenceNumber(0),
            due: Due::default(),
            proposals: None,
            unsynced: None,
        };
        let held = Held { path: path.into(), engine, state: Mutex::new(state) };
        Ok((Self(Arc::new(held)), records))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// In which of its server's lives the replica began, if that was ever written down.
    pub(crate) fn life(&self) -> Option<u64> {
        self.0.state.lock().journal.life()
    }

    /// Writes to the engine what the replica must find again, and of what was committed meanwhile as much as is written at
    /// once. What is lost in a crash of the rest is in the log, up to the next checkpoint: with that all of it is written.
    pub(crate) fn store(&self, records: &[Record]) -> Result<(), Error> {
        let mut state = self.0.state.lock();
        if records.is_empty() && state.due.0.is_empty() {
            return Ok(());
        }
        let is_checkpoint =
            records.iter().any(|record| matches!(record, Record::Checkpoint(_) | Record::Adopt(_)));
        let mut batch = state.due.next(is_checkpoint);
        state.journal.write(records, &mut batch);
        self.0.engine.write(batch)?;
        let State { due, proposals, .. } = &mut *state;
        if let Some(proposals) = proposals.as_mut().filter(|_| due.0.is_empty()) {
            proposals.is_stored();
        }
        Ok(())
    }

    /// Whether something that is committed is to be [stored](Self::store) yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.0.state.lock().due.0.is_empty()
    }

    /// Writes down, for good, in which of its server's lives the replica begins.
    pub(crate) fn begin(&self, life: u64) -> Result<(), Error> {
        let mut batch = Batch::default();
        self.0.state.lock().journal.begin(life, &mut batch);
        self.0.engine.write(batch)?;
        self.0.engine.sync()
    }

    /// How many batches were written to the engine.
    pub(crate) fn sequence(&self) -> u64 {
        self.0.state.lock().journal.written()
    }

    /// What was written survives the loss of power; or that it may not is [remembered](Self::why_unsynced).
    pub(crate) fn sync(&self) {
        if let Err(why) = self.0.engine.sync() {
            self.0.state.lock().unsynced = Some(why);
        }
    }

    /// Why it is not sure that what was written survives the loss of power.
    pub(crate) fn why_unsynced(&self) -> Option<Error> {
        self.0.state.lock().unsynced.take()
    }

    /// The last leader that has announced itself, if that is committed, and all that was before it is in the engine.
    pub(crate) fn leader(&self) -> Option<View> {
        let state = self.0.state.lock();
        let is_committed = state.executed.iter().all(|executed| !matches!(executed.effect, Effect::Lead));
        state.leader.filter(|_| is_committed && state.due.0.is_empty())
    }

    /// While the state is copied: where the next part begins.
    pub(crate) fn copied(&self) -> ObjectId {
        self.0.state.lock().journal.copied()
    }

    /// Replaces what is held from there on, and before `next`, by these entries of a replica that has committed as much, or more.
    /// What was committed here carries less or the same, and what will be carries the rest.
    pub(crate) fn replace(&self, next: Option<ObjectId>, entries: Vec<EngineWrite>) -> Result<(), Error> {
        let mut batch = Batch::default();
        let mut at = self.copied();
        while let Some(object) = self.next(at)?.filter(|object| next.is_none_or(|next| *object < next)) {
            self.0.engine.load(object, &mut |sequence, _| {
                batch.writes.push(EngineWrite::Remove { object, sequence });
            })?;
            at = ObjectId(object.0 + 1);
        }
        batch.writes.extend(entries);
        let mut state = self.0.state.lock();
        state.journal.copy_from(next.unwrap_or(journal::LOG), &mut batch);
        state.journal.count(&mut batch);
        self.0.engine.write(batch)
    }

    /// The first object from `from` on, but for the journal's own.
    pub(crate) fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        Ok(self.0.engine.next(from)?.filter(|object| *object != journal::LOG))
    }

    /// The entries of an object, and of objects after it as long as they take less than so many bytes, as they are after all that is
    /// committed; and where the rest begins.
    pub(crate) fn part(&self, from: ObjectId, bytes: usize) -> Result<Part, Error> {
        let state = self.0.state.lock();
        let (mut entries, mut size) = (Vec::new(), 0);
        let mut next = self.next(from)?;
        while let Some(object) = next.filter(|_| size < bytes) {
            self.0.engine.load(object, &mut |sequence, entry| {
                size += entry.len();
                entries.push(EngineWrite::Put { object, sequence, entry: entry.into() });
            })?;
            next = self.next(ObjectId(object.0 + 1))?;
        }
        if let Some(value) = self.0.engine.fact(fulmar_kv::STATE)? {
            entries.push(EngineWrite::Fact { name: fulmar_kv::STATE, value });
        }
        let is_in_it = |write: &&EngineWrite| match write {
            EngineWrite::Put { object, .. } | EngineWrite::Remove { object, .. } => {
                *object >= from && next.is_none_or(|next| *object < next)
            }
            EngineWrite::Fact { .. } => true,
        };
        entries.extend(state.due.0.iter().filter(is_in_it).cloned());
        Ok(Part { upto: state.committed, entries, next })
    }
}

/// Its snapshot holds only who leads: the entries stay where they are.
impl StateMachine for Entries {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        let Some(operation) = Operation::decode(operation) else { return vec![REFUSED] };
        let mut state = self.0.state.lock();
        match state.execute(operation) {
            Some((effect, before)) => {
                state.executed.push_back(Executed { number, effect, before });
                vec![DONE]
            }
            None => vec![REFUSED],
        }
    }

    fn rollback(&mut self, from: SequenceNumber) {
        let mut state = self.0.state.lock();
        while let Some(executed) = state.executed.pop_back_if(|executed| executed.number >= from) {
            match executed.before {
                Before::Same => {}
                Before::Leader(leader, parts, is_cut) => {
                    (state.leader, state.parts, state.is_cut) = (leader, parts, is_cut);
                }
                Before::Parts(parts) => state.parts = parts,
                Before::Fewer => drop(state.parts.pop()),
            }
        }
    }

    fn commit(&mut self, upto: SequenceNumber) {
        let mut state = self.0.state.lock();
        state.committed = upto;
        while let Some(executed) = state.executed.pop_front_if(|executed| executed.number <= upto) {
            state.is_within = matches!(executed.effect, Effect::Part);
            if let Effect::Write { view, upto, batch } = executed.effect {
                if let Some(proposals) = &mut state.proposals {
                    proposals.is_committed(view, upto);
                }
                state.due.0.extend(batch.writes);
            }
        }
    }

    /// Parts of a write are nowhere but in the log; and with a checkpoint all that is due is written at once.
    fn may_checkpoint(&self) -> bool {
        let state = self.0.state.lock();
        !state.is_within && state.due.are_few()
    }

    /// Whether the leader of a view has announced itself, and that of no later one.
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        match Operation::decode(operation) {
            Some(Operation::Lead(view)) if self.0.state.lock().leader == Some(view) => vec![DONE],
            _ => vec![REFUSED],
        }
    }

    /// A group that ends within a write ends that, too: the parts so far are in no checkpoint.
    fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut state = self.0.state.lock();
        state.is_cut |= !std::mem::take(&mut state.parts).is_empty();
        state.is_within = false;
        if let Some(leader) = state.leader {
            leader.encode(&mut out);
            out.extend(state.is_cut.then_some(1));
        }
        out
    }

    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) -> bool {
        let mut input = Reader::new(snapshot);
        let leader = if input.is_empty() { None } else { View::decode(&mut input) };
        let is_cut = input.byte() == Some(1);
        if !input.is_empty() || leader.is_none() && !snapshot.is_empty() {
            return false;
        }
        let mut state = self.0.state.lock();
        (state.leader, state.is_cut) = (leader, is_cut);
        state.parts.clear();
        state.is_within = false;
        state.executed.clear();
        state.committed = at;
        state.due = Due::default();
        true
    }
}

impl State {
    /// Whether what the leader of a view writes is carried out.
    fn follows(&self, view: View) -> bool {
        self.leader == Some(view) && !self.is_cut
    }

    /// What an operation does, unless another leads by now.
    fn execute(&mut self, operation: Operation) -> Option<(Effect, Before)> {
        match operation {
            Operation::Lead(view) => {
                let is_later = self.leader.is_none_or(|leader| leader < view);
                is_later.then(|| {
                    let (parts, is_cut) = (std::mem::take(&mut self.parts), std::mem::take(&mut self.is_cut));
                    (Effect::Lead, Before::Leader(self.leader.replace(view), parts, is_cut))
                })
            }
            Operation::Write { view, upto, batch } => {
                self.follows(view).then_some((Effect::Write { view, upto, batch }, Before::Same))
            }
            Operation::Part { view, bytes, is_last } => {
                if !self.follows(view) {
                    return None;
                }
                self.parts.push(bytes);
                if !is_last {
                    return Some((Effect::Part, Before::Fewer));
                }
                let whole = Operation::decode(&self.parts.concat());
                let Some(Operation::Write { view, upto, batch }) = whole.filter(|whole| whole.is_of(view))
                else {
                    self.parts.pop();
                    return None;
                };
                let mut parts = std::mem::take(&mut self.parts);
                parts.pop();
                Some((Effect::Write { view, upto, batch }, Before::Parts(parts)))
            }
        }
    }
}
