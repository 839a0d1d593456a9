//! Transactions of several shards, as one of these shards knows them (two-phase commit).
//!
//! A shard that has *prepared* its part of a transaction can carry it out at any timestamp from its proposal on, whatever
//! happens: it has checked it and locked its cells. One of the shards, the *primary*, decides: what its record says has
//! become of the transaction has become of it everywhere (Percolator, section 2.2). Who meets a lock asks there.
//!
//! Records are cells of an object of the shard's own, so that they survive what other cells survive.
//!
//! *Known as:* the lock table, and what a participant of two-phase commit has promised.

use super::{Attempt, Core, Executed, Staged, require};
use crate::commit::Commit;
use crate::{
    Error, FIRST_RESERVED, Interval, Key, KeyAndValue, Object, ObjectId, Restructuring, ShardId, Timestamp,
    TransactionId,
};
use fulmar_coding::{Reader, list, put_varint};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One shard's part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// Of which transaction.
    pub transaction: TransactionId,
    /// The shard that decides.
    pub primary: ShardId,
    /// The shards besides the primary.
    pub others: Vec<ShardId>,
    /// What this shard is to do. Of restructurings it may hold those that make, remove, split, join and place objects.
    pub commit: Commit,
}

/// What has become of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took place at this time.
    Committed(Timestamp),
    /// It never will.
    Aborted,
}

/// The transactions that a shard has heard of and not yet done with.
#[derive(Debug, Default)]
pub struct Pending {
    prepared: BTreeMap<TransactionId, Prepared>,
    /// Who holds which cell, and for what. One cell may be kept by many, but changed by one alone.
    locks: BTreeMap<(ObjectId, Key), Vec<(TransactionId, Lock)>>,
    /// Objects that are to be restructured: all their cells are locked.
    objects: BTreeMap<ObjectId, TransactionId>,
    /// Prepared transactions that nobody may commit beside: see [`Commit::is_exclusive`].
    exclusive: BTreeSet<TransactionId>,
    /// Of those that this shard has decided: which shards may still have to ask.
    committed: BTreeMap<TransactionId, Committed>,
    is_recorded: bool,
}

#[derive(Clone, Debug)]
struct Prepared {
    primary: ShardId,
    others: Vec<ShardId>,
    commit: Commit,
    /// It cannot take place before.
    proposal: Timestamp,
}

#[derive(Clone, Debug)]
struct Committed {
    at: Timestamp,
    unconfirmed: BTreeSet<ShardId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lock {
    Put,
    Delete,
    /// See [`Commit::required`].
    Require,
    /// See [`Commit::touched`].
    Touch,
}

impl Lock {
    fn is_change(self) -> bool {
        matches!(self, Self::Put | Self::Delete)
    }

    fn conflicts(self, other: Self) -> bool {
        match (self, other) {
            (Self::Touch, other) | (other, Self::Touch) => other == Self::Delete,
            (a, b) => a.is_change() || b.is_change(),
        }
    }
}

/// A prepared transaction that is not decided here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Which.
    pub transaction: TransactionId,
    /// The shard that decides about it: its coordinator.
    pub primary: ShardId,
    /// The other shards that have a part of it.
    pub others: Vec<ShardId>,
    /// The snapshot that it is based on.
    pub snapshot: Timestamp,
}

impl Pending {
    /// Whether all is settled and known.
    pub(crate) fn is_empty(&self) -> bool {
        self.prepared.is_empty() && self.committed.is_empty()
    }

    /// How many transactions are prepared.
    pub fn count(&self) -> usize {
        self.prepared.len()
    }

    /// Whether some prepared transaction will change cells of the object, or relies on them.
    pub(crate) fn pins(&self, object: ObjectId) -> bool {
        self.objects.contains_key(&object)
            || self.locked(object, &[]).next().is_some_and(|((locked, _), _)| *locked == object)
    }

    fn locked(
        &self,
        object: ObjectId,
        from: &[u8],
    ) -> impl Iterator<Item = (&(ObjectId, Key), &Vec<(TransactionId, Lock)>)> {
        // Without locks no key is copied.
        let from = (!self.locks.is_empty()).then(|| (object, Key::from(from)));
        from.map(|from| self.locks.range(from..)).into_iter().flatten()
    }

    /// A transaction that has locked what this commit needs, or everything.
    pub fn blocker(&self, commit: &Commit) -> Option<TransactionId> {
        if let Some(exclusive) = self.exclusive.first().filter(|_| !commit.writes.is_empty()) {
            return Some(*exclusive);
        }
        if self.locks.is_empty() && self.objects.is_empty() {
            return None;
        }
        let blocks = |object: ObjectId, key: &[u8], own: Lock| {
            if let Some(holder) = self.objects.get(&object) {
                return Some(*holder);
            }
            let held = self.locks.get(&(object, key.into()))?;
            held.iter().find(|(_, lock)| lock.conflicts(own)).map(|(holder, _)| *holder)
        };
        let writes = commit.writes.iter().find_map(|write| {
            let change = |(key, value): KeyAndValue<'_>| blocks(write.object, key, lock_of(value));
            let cleared = |cleared: &Interval| {
                let whole = self.objects.get(&write.object).copied();
                whole.or_else(|| self.holder_in(write.object, cleared, |_, _| true))
            };
            write.changes.iter().find_map(change).or_else(|| write.cleared.iter().find_map(cleared))
        });
        let required =
            || commit.required.iter().find_map(|(object, key)| blocks(*object, key, Lock::Require));
        let touched = || commit.touched.iter().find_map(|(object, key)| blocks(*object, key, Lock::Touch));
        writes.or_else(required).or_else(touched)
    }

    /// A transaction that may turn out to have changed cells in this interval that `snapshot` sees, or that others have
    /// since.
    pub fn may_change(
        &self,
        object: ObjectId,
        interval: &Interval,
        snapshot: Timestamp,
    ) -> Option<TransactionId> {
        let is_mover = |holder: &TransactionId| self.is_before(*holder, snapshot) && self.moves(*holder);
        let mover = || self.restructurer(object).filter(is_mover);
        let is_due = |holder, lock: Lock| lock.is_change() && self.is_before(holder, snapshot);
        self.holder_in(object, interval, is_due).or_else(mover)
    }

    /// A transaction that may turn out to have restructured the object.
    pub fn restructurer(&self, object: ObjectId) -> Option<TransactionId> {
        self.objects.get(&object).copied()
    }

    fn is_before(&self, holder: TransactionId, snapshot: Timestamp) -> bool {
        self.prepared.get(&holder).is_some_and(|prepared| prepared.proposal <= snapshot)
    }

    /// Whether cells come from another shard by it, or go there.
    fn moves(&self, transaction: TransactionId) -> bool {
        self.restructurings(transaction).is_some_and(|all| all.iter().any(Restructuring::moves))
    }

    /// The restructurings that were prepared for a transaction.
    pub fn restructurings(&self, transaction: TransactionId) -> Option<&[Restructuring]> {
        Some(&self.prepared.get(&transaction)?.commit.restructurings)
    }

    fn holder_in(
        &self,
        object: ObjectId,
        interval: &Interval,
        is_meant: impl Fn(TransactionId, Lock) -> bool,
    ) -> Option<TransactionId> {
        self.locked(object, interval.low())
            .take_while(|((locked, key), _)| *locked == object && interval.contains(key))
            .flat_map(|(_, holders)| holders)
            .find(|(holder, lock)| is_meant(*holder, *lock))
            .map(|(holder, _)| *holder)
    }

    /// The transaction, if it is prepared here and not decided.
    pub fn undecided(&self, transaction: TransactionId) -> Option<Undecided> {
        self.prepared.get(&transaction).map(|prepared| Undecided {
            transaction,
            primary: prepared.primary,
            others: prepared.others.clone(),
            snapshot: prepared.commit.snapshot,
        })
    }

    /// All that are prepared.
    pub fn all_undecided(&self) -> Vec<Undecided> {
        self.prepared.keys().filter_map(|transaction| self.undecided(*transaction)).collect()
    }

    /// When a transaction that this shard has decided took place, if some shard may still have to be told.
    pub fn committed(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.committed.get(&transaction).map(|committed| committed.at)
    }

    /// All that this shard has decided, and the shards that have not said that they know.
    pub fn unconfirmed(&self) -> Vec<(TransactionId, Timestamp, Vec<ShardId>)> {
        let shard = |(transaction, committed): (&TransactionId, &Committed)| {
            (*transaction, committed.at, committed.unconfirmed.iter().copied().collect())
        };
        self.committed.iter().map(shard).collect()
    }

    /// Lets a prepared transaction take place after `seen`, if at all: somebody has read what was there before it.
    pub fn postpone(&mut self, transaction: TransactionId, seen: Timestamp) {
        if let Some(prepared) = self.prepared.get_mut(&transaction) {
            prepared.proposal = prepared.proposal.max(Timestamp(seen.0 + 1));
        }
    }

    fn insert(&mut self, transaction: TransactionId, prepared: Prepared) {
        for object in prepared.commit.restructurings.iter().flat_map(Restructuring::locked) {
            self.objects.insert(object, transaction);
        }
        for (cell, lock) in locks(&prepared.commit) {
            // Most have one holder.
            self.locks.entry(cell).or_insert_with(|| Vec::with_capacity(1)).push((transaction, lock));
        }
        if prepared.commit.is_exclusive {
            self.exclusive.insert(transaction);
        }
        self.prepared.insert(transaction, prepared);
    }

    fn remove(&mut self, transaction: TransactionId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&transaction)?;
        self.exclusive.remove(&transaction);
        for object in prepared.commit.restructurings.iter().flat_map(Restructuring::locked) {
            self.objects.remove(&object);
        }
        for (cell, _) in locks(&prepared.commit) {
            if let Some(holders) = self.locks.get_mut(&cell) {
                holders.retain(|(holder, _)| *holder != transaction);
                if holders.is_empty() {
                    self.locks.remove(&cell);
                }
            }
        }
        Some(prepared)
    }

    /// What a shard's records say; `None` if they are damaged.
    pub(crate) fn restore(records: &Object) -> Option<Self> {
        let mut pending = Self { is_recorded: true, ..Self::default() };
        for slot in 0..records.slots() {
            let (client, number) = records.key(slot).split_first_chunk()?;
            let transaction = TransactionId {
                client: u64::from_be_bytes(*client),
                number: u64::from_be_bytes(number.try_into().ok()?),
            };
            match Record::decode(records.value(slot))? {
                Record::Prepared(prepared) => pending.insert(transaction, prepared),
                Record::Committed(committed) => drop(pending.committed.insert(transaction, committed)),
            }
        }
        Some(pending)
    }

    /// The object that holds a shard's records.
    pub(crate) fn records(shard: ShardId) -> ObjectId {
        ObjectId::new(shard, FIRST_RESERVED + 1)
    }
}

const fn lock_of(value: Option<&[u8]>) -> Lock {
    if value.is_some() { Lock::Put } else { Lock::Delete }
}

/// The cells that a prepared commit locks.
fn locks(commit: &Commit) -> impl Iterator<Item = ((ObjectId, Key), Lock)> {
    let changes = commit.writes.iter().flat_map(|write| {
        write.changes.iter().map(|(key, value)| ((write.object, key.into()), lock_of(value)))
    });
    let required = commit.required.iter().map(|cell| (cell.clone(), Lock::Require));
    let touched = commit.touched.iter().map(|cell| (cell.clone(), Lock::Touch));
    changes.chain(required).chain(touched)
}

/// What is written down of a transaction.
enum Record {
    Prepared(Prepared),
    Committed(Committed),
}

impl Record {
    fn encode(&self) -> Arc<[u8]> {
        let mut out = Vec::new();
        let shards = |shards: &mut dyn Iterator<Item = ShardId>, out: &mut Vec<u8>| {
            let shards: Vec<_> = shards.collect();
            put_varint(out, shards.len() as u64);
            shards.iter().for_each(|shard| put_varint(out, shard.0.into()));
        };
        match self {
            Self::Prepared(Prepared { primary, others, commit, proposal }) => {
                out.push(if commit.is_exclusive { 2 } else { 0 });
                put_varint(&mut out, proposal.0);
                put_varint(&mut out, primary.0.into());
                shards(&mut others.iter().copied(), &mut out);
                commit.encode(&mut out);
            }
            Self::Committed(Committed { at, unconfirmed }) => {
                out.push(1);
                put_varint(&mut out, at.0);
                shards(&mut unconfirmed.iter().copied(), &mut out);
            }
        }
        out.into()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let mut input = Reader::new(value);
        let tag = input.byte()?;
        let at = Timestamp(input.varint()?);
        let record = match tag {
            0 | 2 => {
                let primary = ShardId::decode(&mut input)?;
                let others = list(&mut input, ShardId::decode)?;
                let commit = Commit::decode(tag == 2, &mut input)?;
                Self::Prepared(Prepared { primary, others, commit, proposal: at })
            }
            1 => Self::Committed(Committed {
                at,
                unconfirmed: list(&mut input, ShardId::decode)?.into_iter().collect(),
            }),
            _ => return None,
        };
        input.is_empty().then_some(record)
    }
}

impl Core {
    /// Checks and locks a shard's part of a transaction. The answer is the time from which on it can take place.
    pub(crate) fn prepare(
        &mut self,
        shard: ShardId,
        prepare: &Prepare,
        staged: &mut Staged<'_>,
    ) -> Executed<Timestamp> {
        let Prepare { transaction, primary, others, commit } = prepare;
        if let Some(prepared) = self.pending.prepared.get(transaction) {
            return Ok(prepared.proposal);
        }
        if self.pending.blocker(commit).is_some() {
            return Err(Error::Conflict.into());
        }
        let mut attempt = Attempt { staged, pending: &self.pending, changed: BTreeMap::new() };
        require(commit.restructurings.iter().all(Restructuring::is_prepared))?;
        let writes = attempt.validate(commit, self.last, &self.touched)?;
        let mut commit = commit.clone();
        let changes: Vec<_> = writes.into_iter().map(|(_, changes)| changes.into_owned()).collect();
        for (write, changes) in commit.writes.iter_mut().zip(changes) {
            (write.cleared, write.changes) = (Vec::new(), changes);
        }
        let now = self.last.max(commit.snapshot);
        let proposal = Timestamp(now.0 + 1);
        let prepared = Prepared { primary: *primary, others: others.clone(), commit, proposal };
        let record = Record::Prepared(prepared.clone());
        self.last = proposal;
        self.record(shard, *transaction, Some(&record), staged)?;
        self.pending.insert(*transaction, prepared);
        Ok(proposal)
    }

    /// The primary decides that a prepared transaction takes place, not before `at`, and carries it out: when, and which
    /// objects it has written. Nothing, if it is not prepared here.
    pub(crate) fn decide(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        at: Timestamp,
        staged: &mut Staged<'_>,
    ) -> Executed<Option<(Timestamp, Vec<ObjectId>)>> {
        let Some(prepared) = self.pending.prepared.get(&transaction) else { return Ok(None) };
        let at = at.max(prepared.proposal);
        let written = self.conclude(shard, transaction, Outcome::Committed(at), staged)?;
        Ok(Some((at, written)))
    }

    /// Carries a prepared transaction out, or gives it up, and tells which objects that has written. One that is not
    /// prepared (any more) is left alone.
    pub(crate) fn conclude(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        outcome: Outcome,
        staged: &mut Staged<'_>,
    ) -> Executed<Vec<ObjectId>> {
        let Some(prepared) = self.pending.remove(transaction) else { return Ok(Vec::new()) };
        let mut record = None;
        let mut written = Vec::new();
        if let Outcome::Committed(at) = outcome {
            let commit = &prepared.commit;
            let mut attempt = Attempt { staged, pending: &self.pending, changed: BTreeMap::new() };
            for restructuring in &commit.restructurings {
                attempt.restructure(restructuring)?;
            }
            let writes: Vec<_> =
                commit.writes.iter().map(|w| (w.object, Cow::Borrowed(&w.changes))).collect();
            attempt.write(&writes, at)?;
            let touched = attempt.roots(&commit.touched)?;
            let changed = attempt.changed;
            written.extend(changed.keys());
            self.touch(touched, at, staged.watermark);
            self.receive(&prepared.commit.restructurings);
            self.last = self.last.max(at);
            self.finish(changed, staged);
            if prepared.primary == shard && transaction.is_of_client() {
                self.outcomes.note(shard, transaction, at, staged);
            }
            if prepared.primary == shard && !prepared.others.is_empty() {
                let committed = Committed { at, unconfirmed: prepared.others.into_iter().collect() };
                self.pending.committed.insert(transaction, committed.clone());
                record = Some(Record::Committed(committed));
            }
        }
        self.record(shard, transaction, record.as_ref(), staged)?;
        Ok(written)
    }

    /// The shard of a tree's root decides that a change of the tree's shape takes place at `at`, if these restructurings of
    /// its own still fit: the other shards have prepared theirs, and perhaps this one has prepared some too. Tells which
    /// objects it has written.
    pub(crate) fn reshape(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        (at, others): (Timestamp, &[ShardId]),
        restructurings: &[Restructuring],
        staged: &mut Staged<'_>,
    ) -> Executed<Vec<ObjectId>> {
        let prepared = self.pending.remove(transaction);
        let own = prepared.as_ref().map_or(&[][..], |prepared| &prepared.commit.restructurings);
        let mut attempt = Attempt { staged, pending: &self.pending, changed: BTreeMap::new() };
        let mut all = own.iter().chain(restructurings);
        if let Err(refusal) = all.try_for_each(|restructuring| attempt.restructure(restructuring)) {
            if let Some(prepared) = prepared {
                self.pending.insert(transaction, prepared);
            }
            return Err(refusal);
        }
        let changed = attempt.changed;
        let written = changed.keys().copied().collect();
        self.receive(own);
        self.last = self.last.max(at);
        self.finish(changed, staged);
        let mut record = None;
        if !others.is_empty() {
            let committed = Committed { at, unconfirmed: others.iter().copied().collect() };
            self.pending.committed.insert(transaction, committed.clone());
            record = Some(Record::Committed(committed));
        }
        self.record(shard, transaction, record.as_ref(), staged)?;
        Ok(written)
    }

    /// Goes on remembering which cells of objects that come from elsewhere were touched there.
    fn receive(&mut self, restructurings: &[Restructuring]) {
        for restructuring in restructurings {
            let Restructuring::Place { object, moved } = restructuring else { continue };
            let Some(root) = Object::decode(*object, &moved.object).map(|placed| placed.root()) else {
                continue;
            };
            self.touched.extend(moved.touched.iter().map(|(key, at)| ((root, key.clone()), *at)));
        }
    }

    /// A shard has carried out what this one has decided.
    pub(crate) fn confirm(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        by: ShardId,
        staged: &mut Staged<'_>,
    ) -> Executed<()> {
        let Some(committed) = self.pending.committed.get_mut(&transaction) else { return Ok(()) };
        if !committed.unconfirmed.remove(&by) {
            return Ok(());
        }
        let rest = committed.clone();
        if rest.unconfirmed.is_empty() {
            self.pending.committed.remove(&transaction);
            return self.record(shard, transaction, None, staged);
        }
        self.record(shard, transaction, Some(&Record::Committed(rest)), staged)
    }

    /// Writes a record, or removes it.
    fn record(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        record: Option<&Record>,
        staged: &mut Staged<'_>,
    ) -> Executed<()> {
        let id = Pending::records(shard);
        let is_recorded = std::mem::replace(&mut self.pending.is_recorded, true);
        let mut attempt = Attempt { staged, pending: &self.pending, changed: BTreeMap::new() };
        if !is_recorded {
            attempt.put(Object::empty(id, Interval::everything(), 0));
        }
        let key: Vec<u8> = [transaction.client.to_be_bytes(), transaction.number.to_be_bytes()].concat();
        let value = record.map(Record::encode);
        let change = [(&*key, value.as_deref())].into_iter().collect();
        let records = attempt.existing(id)?;
        attempt.change(&records, &change, Timestamp(0));
        let changed = attempt.changed;
        self.finish(changed, staged);
        Ok(())
    }
}
