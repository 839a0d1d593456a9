//! The deterministic core: what a commit does to objects. No clock, no thread, no input or output but the objects it
//! is handed and the batch it fills, so that the same commits in the same order do the same.
//!
//! *Known as:* a state machine; [`Restructuring::Collect`] is MVCC garbage collection, vacuum.

mod outcomes;
mod prepared;
#[cfg(test)]
mod tests;

pub use outcomes::Outcomes;
pub use prepared::{Outcome, Pending, Prepare, Undecided};

use crate::commit::{link, linked};
use crate::engine::{Batch, Engine, EngineWrite};
use crate::object::{Log, encode_changes};
use crate::{
    Changes, Commit, Error, Interval, Key, KeyAndValue, Object, ObjectId, Refusal, Restructuring, ShardId,
    Timestamp, TransactionId, Write,
};
use fulmar_coding::{Reader, put_varint};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changes are kept beside a checkpoint until they take this many bytes, or half as many as the object …
const DELTA_BYTES: usize = 2 << 10;
/// … or are this many.
const DELTAS: u64 = 24;

/// How many touched cells are always remembered.
const TOUCHED: usize = 1024;

const CHECKPOINT: u8 = 0;
const CHANGES: u8 = 1;
/// The name of the fact that a storage keeps beside its objects' entries, from which it goes on.
pub const STATE: &str = "state";

/// What the core must know between commits.
#[derive(Debug, Default)]
pub(crate) struct Core {
    /// The newest commit, or a later point that all commits to come are above.
    pub(crate) last: Timestamp,
    /// Orders the engine's entries: grows with every commit, also with those that change no cell.
    pub(crate) sequence: u64,
    /// How many objects there are, but for those that were there before they were counted.
    pub(crate) objects: u64,
    touched: Touched,
    /// With more than this, those that no open transaction can run into are forgotten.
    touched_bound: usize,
    /// Transactions of several shards.
    pub(crate) pending: Pending,
    /// What has become of clients' last transactions.
    pub(crate) outcomes: Outcomes,
}

/// When each cell, by its root and key, was last touched. Never stored: it matters to open transactions only.
type Touched = BTreeMap<(ObjectId, Key), Timestamp>;

/// The objects as a shard of commits leaves them, and what the engine has to write for that.
pub(crate) struct Staged<'a> {
    read: &'a dyn Fn(ObjectId) -> Result<Option<Arc<Object>>, Error>,
    /// No open snapshot is older.
    watermark: Timestamp,
    /// Whether the engine keeps entries: if not, it is told only which objects there are.
    keeps_entries: bool,
    /// The most bytes that it takes at once.
    largest: u64,
    /// `None`: removed.
    pub(crate) objects: BTreeMap<ObjectId, Option<Arc<Object>>>,
    pub(crate) batch: Batch,
    /// Objects that are worth a [`Restructuring::Collect`] as soon as no snapshot is older, and maybe a
    /// [`Restructuring::Join`].
    pub(crate) stale: Vec<(Timestamp, ObjectId)>,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(
        read: &'a dyn Fn(ObjectId) -> Result<Option<Arc<Object>>, Error>,
        watermark: Timestamp,
        engine: &dyn Engine,
    ) -> Self {
        let (objects, batch, stale) = (BTreeMap::new(), Batch::default(), Vec::new());
        let (keeps_entries, largest) = (engine.keeps_entries(), engine.largest());
        Self { read, watermark, keeps_entries, largest, objects, batch, stale }
    }
}

/// One commit's work: objects that it has changed so far.
struct Attempt<'s, 'a> {
    staged: &'s Staged<'a>,
    pending: &'s Pending,
    changed: BTreeMap<ObjectId, Effect>,
}

enum Effect {
    Changed {
        object: Arc<Object>,
        /// How the engine can tell it by the changes made, if they are all.
        delta: Option<Vec<u8>>,
        /// It has become [sparse](Object::is_sparse). What only stays so is not worth a look each time.
        thins: bool,
    },
    Removed {
        /// How many entries the engine has of it.
        stored: u64,
    },
}

type Executed<T> = Result<T, Refusal<()>>;

impl Core {
    /// The core as it was when `state` was stored; `None` if that is damaged.
    pub(crate) fn restore(state: Option<&[u8]>) -> Option<(Self, u64)> {
        let Some(state) = state else { return Some((Self::default(), 0)) };
        let mut input = Reader::new(state);
        let last = Timestamp(input.varint()?);
        let sequence = input.varint()?;
        let next_object = input.varint()?;
        let objects = if input.is_empty() { 0 } else { input.varint()? };
        // Nothing comes near the end of the numbers.
        let is_sound = input.is_empty() && last.0.max(sequence).max(next_object) < u64::MAX / 2;
        is_sound.then(|| (Self { last, sequence, objects, ..Self::default() }, next_object))
    }

    /// Adds to the batch what [`Core::restore`] needs.
    pub(crate) fn save(&self, next_object: u64, batch: &mut Batch) {
        let mut value = Vec::with_capacity(32);
        put_varint(&mut value, self.last.0);
        put_varint(&mut value, self.sequence);
        put_varint(&mut value, next_object);
        put_varint(&mut value, self.objects);
        batch.writes.push(EngineWrite::Fact { name: STATE, value });
    }

    /// Carries out one commit on `staged`, or nothing of it.
    pub(crate) fn execute(&mut self, commit: &Commit, staged: &mut Staged<'_>) -> Executed<Timestamp> {
        if self.pending.blocker(commit).is_some() {
            return Err(Error::Conflict.into());
        }
        let mut attempt = Attempt { staged, pending: &self.pending, changed: BTreeMap::new() };
        let writes = attempt.validate(commit, self.last, &self.touched)?;
        let now = self.last.max(commit.snapshot);
        let at = if commit.writes.is_empty() { self.last } else { Timestamp(now.0 + 1) };
        attempt.write(&writes, at)?;
        let touched = attempt.roots(&commit.touched)?;
        let changed = attempt.changed;
        self.touch(touched, at, staged.watermark);
        self.last = at;
        self.finish(changed, staged);
        staged.batch.is_owed |= commit.writes.is_empty();
        Ok(at)
    }

    /// As [`Core::execute`], for a client that may ask for it again.
    pub(crate) fn execute_for(
        &mut self,
        (shard, transaction): (ShardId, TransactionId),
        commit: &Commit,
        staged: &mut Staged<'_>,
    ) -> Executed<Timestamp> {
        let at = self.execute(commit, staged)?;
        self.outcomes.note(shard, transaction, at, staged);
        Ok(at)
    }

    /// Remembers touched cells, for as long as it matters.
    fn touch(&mut self, cells: Vec<(ObjectId, Key)>, at: Timestamp, watermark: Timestamp) {
        self.touched.extend(cells.into_iter().map(|cell| (cell, at)));
        if self.touched.len() > self.touched_bound {
            self.touched.retain(|_, at| *at > watermark);
            self.touched_bound = TOUCHED + 2 * self.touched.len();
        }
    }

    /// The cells of a tree that were touched in this interval, and when.
    pub(crate) fn touched(&self, root: ObjectId, interval: &Interval) -> Vec<(Key, Timestamp)> {
        let from = (root, Key::from(interval.low()));
        let touched = self.touched.range(from..);
        let inside = touched.take_while(|((tree, key), _)| *tree == root && interval.contains(key));
        inside.map(|((_, key), at)| (key.clone(), *at)).collect()
    }

    /// Hands an attempt's objects on.
    fn finish(&mut self, changed: BTreeMap<ObjectId, Effect>, staged: &mut Staged<'_>) {
        self.sequence += 1;
        for (id, effect) in changed {
            self.stage(id, effect, staged);
        }
    }

    fn stage(&mut self, id: ObjectId, effect: Effect, staged: &mut Staged<'_>) {
        let (object, delta, thins) = match effect {
            Effect::Changed { object, delta, thins } => (object, delta, thins),
            Effect::Removed { stored } => {
                self.objects = self.objects.saturating_sub(stored.min(1));
                let removals = (0..stored).map(|sequence| EngineWrite::Remove { object: id, sequence });
                staged.batch.writes.extend(removals);
                staged.objects.insert(id, None);
                return;
            }
        };
        // The attempt made it and still is its only owner.
        let mut object = Arc::into_inner(object).expect("an object is shared only after it is staged");
        let is_new = object.log.stored == 0;
        self.objects += u64::from(is_new);
        if staged.keeps_entries {
            staged.batch.writes.push(self.entry(&mut object, delta, staged.largest));
        } else if is_new {
            object.log.stored = 1;
            staged.batch.writes.push(EngineWrite::Put { object: id, sequence: 0, entry: Vec::new() });
        }
        if thins || object.is_void() || object.is_mostly_stale() {
            staged.stale.push((object.newest(), id));
        }
        staged.objects.insert(id, Some(Arc::new(object)));
    }

    /// What the engine has to store for an object that has changed: the change, or the object anew, if it takes that.
    fn entry(&self, object: &mut Object, delta: Option<Vec<u8>>, largest: u64) -> EngineWrite {
        let delta = delta.filter(|delta| takes_change(object, delta.len(), largest));
        let log = &mut object.log;
        let mut entry = Vec::new();
        match delta {
            Some(delta) => {
                entry.reserve(delta.len() + 10);
                entry.push(CHANGES);
                put_varint(&mut entry, log.checkpoint);
                entry.extend(&delta);
                log.bytes_since_checkpoint += delta.len();
            }
            None => {
                *log = Log { checkpoint: self.sequence, stored: log.stored, ..Log::default() };
                entry.push(CHECKPOINT);
                put_varint(&mut entry, self.sequence);
                object.encode(&mut entry);
            }
        }
        let sequence = object.log.entries;
        object.log.entries += 1;
        object.log.stored = object.log.stored.max(object.log.entries);
        EngineWrite::Put { object: object.id(), sequence, entry }
    }
}

/// Whether the engine stores a change of so many bytes beside the object's last checkpoint, and not the object anew.
fn takes_change(object: &Object, bytes: usize, largest: u64) -> bool {
    let log = &object.log;
    let bound = DELTA_BYTES.max(object.size() / 2);
    let fits = log.entries < DELTAS && log.bytes_since_checkpoint + bytes < bound;
    log.entries > 0 && (fits || object.size() as u64 > largest)
}

impl Attempt<'_, '_> {
    fn get(&self, id: ObjectId) -> Result<Option<Arc<Object>>, Error> {
        match self.changed.get(&id) {
            Some(Effect::Changed { object, .. }) => return Ok(Some(object.clone())),
            Some(Effect::Removed { .. }) => return Ok(None),
            None => {}
        }
        if let Some(object) = self.staged.objects.get(&id) {
            return Ok(object.clone());
        }
        (self.staged.read)(id)
    }

    fn existing(&self, id: ObjectId) -> Executed<Arc<Object>> {
        self.get(id)?.ok_or(Refusal::Misplaced(()))
    }

    /// An object whose cells no prepared transaction has locked where they are.
    fn movable(&self, id: ObjectId) -> Executed<Arc<Object>> {
        require(!self.pending.pins(id))?;
        self.existing(id)
    }

    fn put(&mut self, object: Object) {
        let object = Arc::new(object);
        self.changed.insert(object.id(), Effect::Changed { object, delta: None, thins: false });
    }

    fn remove(&mut self, object: &Object) {
        self.changed.insert(object.id(), Effect::Removed { stored: object.log.stored });
    }

    /// Whether no object has this name, and this commit has not removed one of it, whose entries are still there.
    fn is_free(&self, id: ObjectId) -> Result<bool, Error> {
        Ok(!self.changed.contains_key(&id) && self.get(id)?.is_none())
    }

    fn absent(&self, id: ObjectId) -> Executed<()> {
        require(self.is_free(id)?)
    }

    fn restructure(&mut self, restructuring: &Restructuring) -> Executed<()> {
        let watermark = self.staged.watermark;
        match restructuring {
            Restructuring::Create { object } => {
                if !self.is_free(*object)? {
                    return Err(Error::Conflict.into());
                }
                self.put(Object::empty(*object, Interval::everything(), 0));
            }
            Restructuring::Remove { object } => {
                let object = self.movable(*object)?;
                self.remove(&object);
            }
            Restructuring::Split { object, cuts } => {
                let whole = self.movable(*object)?;
                let low = whole.interval().low();
                require(cuts.iter().all(|(key, _)| whole.interval().contains(key) && &**key > low))?;
                require(cuts.is_sorted_by(|(a, _), (b, _)| a < b))?;
                // Each part must begin with a link, or keys between its low end and its first link lead nowhere.
                require(whole.level() == 0 || cuts.iter().all(|(key, _)| whole.changed(key).is_some()))?;
                let mut parts = whole.split(cuts, watermark).into_iter();
                if let Some(first) = parts.next() {
                    self.put(first);
                }
                for part in parts {
                    self.absent(part.id())?;
                    self.put(part);
                }
            }
            Restructuring::Join { left, right } => {
                let (a, b) = (self.movable(*left)?, self.movable(*right)?);
                require(a.interval().high() == Some(b.interval().low()))?;
                require(a.level() == b.level() && a.root() == b.root())?;
                self.put(a.join(&b, watermark));
                self.remove(&b);
            }
            Restructuring::Relink { object, level, links } => self.relink(*object, *level, links)?,
            Restructuring::Grow { root, into } => {
                let old = self.movable(*root)?;
                require(old.root() == *root && old.level() < u8::MAX)?;
                self.absent(*into)?;
                let low = [(old.interval().low(), Some(&link(*into)[..]))].into_iter().collect();
                let new = Object::empty(*root, old.interval().clone(), old.level() + 1)
                    .apply(&low, Timestamp(0), watermark)
                    .with_log(old.log.clone());
                self.put(old.renamed(*into, old.level()));
                self.put(new);
            }
            Restructuring::Shrink { root } => {
                let old = self.existing(*root)?;
                require(old.level() > 0 && old.slots() == 1)?;
                let only = linked(old.value(0)).ok_or(Refusal::Misplaced(()))?;
                let child = self.movable(only)?;
                require(child.interval() == old.interval() && child.root() == old.root())?;
                let new = child.renamed(*root, child.level()).with_log(old.log.clone());
                self.put(new);
                self.remove(&child);
            }
            Restructuring::Collect { object } => {
                let collected = self.existing(*object)?.apply(&Changes::default(), Timestamp(0), watermark);
                self.put(collected);
            }
            Restructuring::Place { object, moved } => {
                self.absent(*object)?;
                let placed = Object::decode(*object, &moved.object);
                self.put(placed.ok_or(Refusal::Misplaced(()))?);
            }
        }
        Ok(())
    }

    fn relink(&mut self, id: ObjectId, level: u8, links: &[(Key, Option<ObjectId>)]) -> Executed<()> {
        let object = self.existing(id)?;
        require(level > 0 && object.level() == level)?;
        require(links.iter().all(|(key, _)| object.interval().contains(key)))?;
        let mut changes = Changes::default();
        for (key, to) in links {
            require(changes.push(key, to.map(link).as_ref().map(|link| &link[..])))?;
        }
        self.change(&object, &changes, Timestamp(0));
        Ok(())
    }

    /// Applies changes, and remembers them as all that happened to the object unless something did before.
    ///
    /// # Panics
    /// If they are not the object's to take: what was validated is, and what were written otherwise could not be read back.
    fn change(&mut self, object: &Object, changes: &Changes, at: Timestamp) {
        assert!(object.takes(changes, at), "object {}: changes at {} are out of place", object.id().0, at.0);
        let next = Arc::new(object.apply(changes, at, self.staged.watermark));
        let is_first = !self.changed.contains_key(&object.id());
        let is_stored = self.staged.keeps_entries && is_first;
        let is_stored = is_stored && takes_change(&next, changes.size(), self.staged.largest);
        let delta = is_stored.then(|| encode_changes(changes, at));
        let thins = next.is_sparse() && !object.is_sparse();
        self.changed.insert(object.id(), Effect::Changed { object: next, delta, thins });
    }

    /// Carries out a commit's restructurings, and finds out whether all else of it may be done: then these are the changes,
    /// object by object. `last` is the newest commit.
    fn validate<'c>(
        &mut self,
        commit: &'c Commit,
        last: Timestamp,
        touched: &Touched,
    ) -> Executed<Vec<(ObjectId, Cow<'c, Changes>)>> {
        for restructuring in &commit.restructurings {
            self.restructure(restructuring)?;
        }
        for (object, key) in commit.required.iter().chain(&commit.touched) {
            let object = self.existing(*object)?;
            require(object.level() == 0 && object.interval().contains(key))?;
        }
        for (object, key) in &commit.required {
            first_committer_wins(&*self.existing(*object)?, key, commit.snapshot)?;
        }
        for (object, key) in &commit.touched {
            let object = self.existing(*object)?;
            if object.get(key, last).is_none() {
                first_committer_wins(&object, key, commit.snapshot)?;
            }
        }
        let changes = |write: &'c Write| Ok((write.object, self.changes(write, commit.snapshot, touched)?));
        commit.writes.iter().map(changes).collect()
    }

    /// What a write changes, if its object holds the cells and nobody else has changed them.
    fn changes<'c>(
        &self,
        write: &'c Write,
        snapshot: Timestamp,
        touched: &Touched,
    ) -> Executed<Cow<'c, Changes>> {
        let object = self.existing(write.object)?;
        let interval = object.interval();
        let placed = |c: Option<KeyAndValue<'_>>| c.is_none_or(|(key, _)| interval.contains(key));
        require(object.level() == 0 && placed(write.changes.first()) && placed(write.changes.last()))?;
        require(write.cleared.iter().all(|cleared| interval.covers(cleared)))?;
        let changes = if write.cleared.is_empty() {
            Cow::Borrowed(&write.changes)
        } else {
            Cow::Owned(with_deletions(&object, write, snapshot))
        };
        if object.size() + changes.size() > Object::LARGEST {
            return Err(Error::TooLarge.into());
        }
        if object.newest() > snapshot {
            for (key, _) in changes.iter() {
                first_committer_wins(&object, key, snapshot)?;
            }
        }
        if !touched.is_empty() {
            for (deleted, _) in changes.iter().filter(|(_, value)| value.is_none()) {
                let touched = touched.get(&(object.root(), deleted.into()));
                if touched.is_some_and(|at| *at > snapshot) {
                    return Err(Error::Conflict.into());
                }
            }
        }
        Ok(changes)
    }

    fn write(&mut self, writes: &[(ObjectId, Cow<'_, Changes>)], at: Timestamp) -> Executed<()> {
        for (object, changes) in writes {
            let object = self.existing(*object)?;
            self.change(&object, changes, at);
        }
        Ok(())
    }

    /// Cells by what never changes: their tree's root.
    fn roots(&self, cells: &[(ObjectId, Key)]) -> Executed<Vec<(ObjectId, Key)>> {
        cells.iter().map(|(object, key)| Ok((self.existing(*object)?.root(), key.clone()))).collect()
    }
}

/// The write's changes and a deletion of each other cell in its cleared intervals that `snapshot` sees.
fn with_deletions(object: &Object, write: &Write, snapshot: Timestamp) -> Changes {
    let mut changes: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    for cleared in &write.cleared {
        let mut slot = object.visible_from(object.lower_bound(cleared.low()), snapshot);
        while let Some(s) = slot
            && cleared.contains(object.key(s))
        {
            changes.insert(object.key(s), None);
            slot = object.visible_after(s, snapshot);
        }
    }
    changes.extend(write.changes.iter());
    changes.into_iter().collect()
}

fn first_committer_wins(object: &Object, key: &[u8], snapshot: Timestamp) -> Executed<()> {
    match object.changed(key) {
        Some(at) if at > snapshot => Err(Error::Conflict.into()),
        _ => Ok(()),
    }
}

fn require(holds: bool) -> Executed<()> {
    if holds { Ok(()) } else { Err(Refusal::Misplaced(())) }
}

/// Puts an object together from the engine's entries.
#[derive(Default)]
pub(crate) struct Loading {
    object: Option<Object>,
    damage: Option<String>,
}

impl Loading {
    /// Takes the next entry, in ascending order of sequence numbers.
    pub(crate) fn entry(&mut self, id: ObjectId, sequence: u64, entry: &[u8], watermark: Timestamp) {
        if self.damage.is_some() {
            return;
        }
        let mut input = Reader::new(entry);
        let next = match (input.byte(), input.varint(), self.object.take()) {
            (Some(CHECKPOINT), Some(checkpoint), None) if sequence == 0 => Object::decode(id, input.rest())
                .map(|object| {
                    object.with_log(Log { checkpoint, entries: 1, stored: 1, bytes_since_checkpoint: 0 })
                }),
            (Some(CHANGES), Some(checkpoint), Some(object)) if sequence == object.log.stored => {
                Self::changes(object, checkpoint, input.rest(), watermark)
            }
            _ => None,
        };
        if next.is_none() {
            self.damage = Some(format!("object {}: entry {sequence} is damaged", id.0));
        }
        self.object = next;
    }

    /// Applies an entry of changes, unless they were made before the checkpoint.
    fn changes(object: Object, checkpoint: u64, changes: &[u8], watermark: Timestamp) -> Option<Object> {
        let mut log = object.log.clone();
        log.stored += 1;
        if checkpoint != log.checkpoint {
            return Some(object.with_log(log));
        }
        if log.entries + 1 != log.stored {
            return None;
        }
        log.entries += 1;
        log.bytes_since_checkpoint += changes.len();
        Some(object.replay(changes, watermark)?.with_log(log))
    }

    pub(crate) fn finish(self) -> Result<Option<Object>, String> {
        self.damage.map_or(Ok(self.object), Err)
    }
}
