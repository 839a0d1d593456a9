//! What has become of each client's last transaction, so that one who asks again is told, whoever serves the shard by then.
//!
//! The record of an outcome is written together with what it tells of, in an entry that is the client's. Of a client that has
//! asked for nothing for a long time the record is forgotten: it does not ask again so late.
//!
//! *Known as:* completion records (RIFL: Lee and others 2015, section 3), exactly-once semantics.

use super::{Outcome, Staged};
use crate::engine::EngineWrite;
use crate::{FIRST_RESERVED, ObjectId, ShardId, Timestamp, TransactionId};
use fulmar_coding::{Reader, put_varint};
use std::collections::BTreeMap;

/// The outcomes of so many clients are remembered.
const MOST: u64 = if cfg!(test) { 10 } else { 100_000 };
/// The entry that says what was forgotten; those of clients follow.
const FORGOTTEN: u64 = 0;

/// A record is no longer than three numbers, bytes: client, number and when it was committed, if it was.
const RECORD_BYTES: usize = 30;

/// The outcomes of clients' last transactions.
#[derive(Debug, Default)]
pub struct Outcomes {
    last: BTreeMap<u64, Last>,
    /// Entries of clients that are forgotten.
    free: Vec<u64>,
    /// How many entries there are.
    entries: u64,
    /// There may be commits up to here of which nothing is remembered; and what the disk says of that.
    forgotten: Timestamp,
    forgotten_on_disk: Timestamp,
    /// How often [`Outcomes::age`] was called.
    age: u64,
}

#[derive(Debug)]
struct Last {
    /// Its entry, if it has one.
    entry: Option<u64>,
    number: u64,
    outcome: Outcome,
    /// When it was heard of.
    age: u64,
}

impl Outcomes {
    /// The object whose entries they are; it is no object otherwise.
    pub(crate) fn records(shard: ShardId) -> ObjectId {
        ObjectId::new(shard, FIRST_RESERVED)
    }

    /// Learns an entry again; nothing, if it is damaged.
    pub(crate) fn restore(&mut self, entry: u64, record: &[u8]) -> Option<()> {
        let mut input = Reader::new(record);
        let first = input.varint()?;
        if entry == FORGOTTEN {
            // Earlier versions wrote down two.
            let second = if input.is_empty() { 0 } else { input.varint()? };
            self.forgotten = Timestamp(first.max(second));
            self.forgotten_on_disk = self.forgotten;
        } else {
            let number = input.varint()?;
            let outcome = match input.is_empty() {
                true => Outcome::Aborted,
                false => Outcome::Committed(Timestamp(input.varint()?)),
            };
            self.entries = self.entries.max(entry);
            let last = Last { entry: Some(entry), number, outcome, age: self.age };
            // An entry that was forgotten and not used again may be an earlier one of the same client.
            let older = match self.last.get(&first) {
                Some(known) if known.number >= number => Some(last),
                _ => self.last.insert(first, last),
            };
            self.free.extend(older.and_then(|older| older.entry));
        }
        input.is_empty().then_some(())
    }

    /// What has become of a transaction of a client, if that is known. One before the client's last has been answered.
    pub(crate) fn of(&self, transaction: TransactionId) -> Option<Outcome> {
        let last = self.last.get(&transaction.client).filter(|last| last.number >= transaction.number)?;
        Some(if last.number == transaction.number { last.outcome } else { Outcome::Aborted })
    }

    /// Whether a transaction that is not known, and would have been committed after this, may have been.
    pub(crate) fn may_have_forgotten(&self, after: Timestamp) -> bool {
        self.forgotten > after
    }

    /// Nothing may be remembered of commits up to this one.
    pub fn forget_until(&mut self, at: Timestamp) {
        self.forgotten = self.forgotten.max(at);
    }

    /// A transaction was carried out.
    pub(super) fn note(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        at: Timestamp,
        staged: &mut Staged<'_>,
    ) {
        if !self.write(shard, transaction, Outcome::Committed(at), staged) {
            self.forget_for_good(shard, at, staged);
        }
    }

    /// As [`Outcomes::forget_until`], and whoever serves the shard next knows it.
    pub(crate) fn forget_for_good(&mut self, shard: ShardId, at: Timestamp, staged: &mut Staged<'_>) {
        self.forget_until(at);
        self.put_forgotten(shard, staged);
    }

    fn put_forgotten(&mut self, shard: ShardId, staged: &mut Staged<'_>) {
        let mut record = Vec::with_capacity(RECORD_BYTES);
        put_varint(&mut record, self.forgotten.0);
        put(shard, FORGOTTEN, record, staged);
        self.forgotten_on_disk = self.forgotten;
    }

    /// A transaction is not carried out: if it is asked for once more, by a message that comes late, it is not either.
    pub fn refuse(&mut self, TransactionId { client, number }: TransactionId) {
        let before = self.last.get(&client);
        if before.is_none_or(|last| last.number < number) {
            let entry = before.and_then(|last| last.entry);
            self.last.insert(client, Last { entry, number, outcome: Outcome::Aborted, age: self.age });
        }
    }

    /// As [`Outcomes::refuse`], and whoever serves the shard next knows it; if there is room to remember it.
    pub(crate) fn refuse_for_good(
        &mut self,
        shard: ShardId,
        transaction: TransactionId,
        staged: &mut Staged<'_>,
    ) {
        self.refuse(transaction);
        let is_last = |last: &Last| last.number == transaction.number && last.outcome == Outcome::Aborted;
        if self.last.get(&transaction.client).is_some_and(is_last) {
            self.write(shard, transaction, Outcome::Aborted, staged);
        }
    }

    /// Says whether there is an entry left for it.
    fn write(
        &mut self,
        shard: ShardId,
        TransactionId { client, number }: TransactionId,
        outcome: Outcome,
        staged: &mut Staged<'_>,
    ) -> bool {
        let known = self.last.get(&client).and_then(|last| last.entry);
        let entry = known.or_else(|| self.free.pop()).or_else(|| {
            (self.entries < MOST).then(|| {
                self.entries += 1;
                self.entries
            })
        });
        let Some(entry) = entry else { return false };
        // The entry may be that of one that was forgotten.
        if known.is_none() && self.forgotten > self.forgotten_on_disk {
            self.put_forgotten(shard, staged);
        }
        self.last.insert(client, Last { entry: Some(entry), number, outcome, age: self.age });
        let mut record = Vec::with_capacity(RECORD_BYTES);
        put_varint(&mut record, client);
        put_varint(&mut record, number);
        if let Outcome::Committed(at) = outcome {
            put_varint(&mut record, at.0);
        }
        put(shard, entry, record, staged);
        true
    }

    /// Forgets those that were not heard of since this was called last: longer ago than anyone asks again whose machine has not slept.
    pub fn age(&mut self) {
        let Self { last, free, age, forgotten, .. } = self;
        last.retain(|_, last| {
            let is_kept = last.age == *age;
            if !is_kept {
                free.extend(last.entry);
                if let Outcome::Committed(at) = last.outcome {
                    *forgotten = (*forgotten).max(at);
                }
            }
            is_kept
        });
        self.age += 1;
    }
}

fn put(shard: ShardId, sequence: u64, entry: Vec<u8>, staged: &mut Staged<'_>) {
    if staged.keeps_entries {
        let object = Outcomes::records(shard);
        staged.batch.writes.push(EngineWrite::Put { object, sequence, entry });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Batch, Engine, Memory};
    use fulmar_node::Random;

    const SHARD: ShardId = ShardId(3);

    fn write(engine: &Memory, note: impl FnOnce(&mut Staged<'_>)) {
        let nothing = |_| Ok(None);
        let mut staged = Staged::new(&nothing, Timestamp(0), engine);
        note(&mut staged);
        engine.write(Batch { writes: staged.batch.writes, ..Batch::default() }).expect("memory");
    }

    fn restored(engine: &Memory) -> Outcomes {
        let mut outcomes = Outcomes::default();
        engine
            .load(Outcomes::records(SHARD), &mut |entry, record| {
                outcomes.restore(entry, record).expect("sound");
            })
            .expect("memory");
        outcomes
    }

    /// Against the last transaction of each client; whoever is not remembered may have been forgotten.
    #[test]
    fn the_last_outcome_of_each_client_is_remembered_or_known_to_be_forgotten() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (engine, mut outcomes) = (Memory::default(), Outcomes::default());
            // By client: the last number, what was written of it if anything was, and when it was asked for.
            let mut last: BTreeMap<u64, (u64, Option<Outcome>, u64)> = BTreeMap::new();
            let (mut age, mut is_restored) = (0, false);
            for now in 1..200 {
                let client = random.below(MOST + 4);
                let number = last.get(&client).map_or(1, |(number, ..)| number + 1 + random.below(2));
                let transaction = TransactionId { client, number };
                match random.below(20) {
                    0 => {
                        outcomes.age();
                        age += 1;
                    }
                    1 => (outcomes, is_restored) = (restored(&engine), true),
                    2..5 => {
                        outcomes.refuse(transaction);
                        last.insert(client, (number, None, age));
                    }
                    5..8 => {
                        write(&engine, |staged| outcomes.refuse_for_good(SHARD, transaction, staged));
                        last.insert(client, (number, Some(Outcome::Aborted), age));
                    }
                    _ => {
                        let at = Timestamp(now);
                        write(&engine, |staged| outcomes.note(SHARD, transaction, at, staged));
                        last.insert(client, (number, Some(Outcome::Committed(at)), age));
                    }
                }
                for (client, (number, written, asked)) in &last {
                    let transaction = TransactionId { client: *client, number: *number };
                    let known = outcomes.of(transaction);
                    let is_recent = *asked == age;
                    match written {
                        Some(outcome @ Outcome::Committed(at)) => assert!(
                            known == Some(*outcome) || outcomes.may_have_forgotten(Timestamp(at.0 - 1)),
                            "{seed}: {transaction:?}"
                        ),
                        // There may have been no room to write it down.
                        Some(Outcome::Aborted) if is_recent && last.len() as u64 <= MOST => {
                            assert_eq!(known, Some(Outcome::Aborted), "{seed}: {transaction:?}");
                        }
                        Some(outcome) => assert!(known.is_none_or(|known| known == *outcome)),
                        None => assert!(is_restored || !is_recent || known == Some(Outcome::Aborted)),
                    }
                    let next = TransactionId { number: number + 1, ..transaction };
                    assert_eq!(outcomes.of(next), None);
                }
            }
        }
    }
}
