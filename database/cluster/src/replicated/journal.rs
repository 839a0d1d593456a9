//! What a replica must find again, as entries of the engine that also holds its state: so that both go there together.
//!
//! *Known as:* a replica's write-ahead log.

use fulmar_kv::engine::{Batch, Engine, EngineWrite};
use fulmar_kv::{Error, ObjectId};
use fulmar_replication::{Record, SequenceNumber, Standing};
use fulmar_transport::Wire;

/// The object whose entries are those of the log; no shard has one of this name.
pub(super) const LOG: ObjectId = ObjectId(u64::MAX);

/// How many batches were written to the engine.
pub(super) const WRITTEN: &str = "written";
const LIFE: &str = "life";
const VIEW: &str = "view";
const ORDERED: &str = "ordered";
const CHECKPOINT: &str = "checkpoint";
const COPYING: &str = "copying";
const COPIED: &str = "copied";

/// The facts that hold what a replica's [`Standing`] comes to.
const FACTS: [&str; 3] = [VIEW, ORDERED, COPYING];

/// Where the replica's records stand.
pub(super) struct Journal {
    /// How many batches were written.
    written: u64,
    life: Option<u64>,
    /// While the state is copied: what comes before this object is.
    copied: ObjectId,
    standing: Standing,
    /// The log has entries after the first and up to the second.
    start: SequenceNumber,
    last: SequenceNumber,
}

impl Journal {
    /// With the records from which the replica goes on; none, if it has never been.
    pub(super) fn open(
        engine: &dyn Engine,
        damaged: impl Fn(&str) -> Error,
    ) -> Result<(Self, Vec<Record>), Error> {
        let number = |name| -> Result<Option<u64>, Error> {
            let Some(value) = engine.fact(name)? else { return Ok(None) };
            value.try_into().map(|bytes| Some(u64::from_be_bytes(bytes))).map_err(|_| damaged(name))
        };
        let record = |name| -> Result<Option<Record>, Error> {
            let Some(value) = engine.fact(name)? else { return Ok(None) };
            Record::decode(&value).map(Some).map_err(|_| damaged(name))
        };
        let mut journal = Self {
            written: number(WRITTEN)?.unwrap_or_default(),
            life: number(LIFE)?,
            copied: ObjectId(number(COPIED)?.unwrap_or_default()),
            standing: Standing::default(),
            start: SequenceNumber(0),
            last: SequenceNumber(0),
        };
        let mut records = Vec::new();
        if let Some(record) = record(CHECKPOINT)? {
            if let Record::Checkpoint(checkpoint) | Record::Adopt(checkpoint) = &record {
                (journal.start, journal.last) = (checkpoint.at, checkpoint.at);
            }
            records.push(record);
        }
        let mut is_sound = true;
        engine.load(LOG, &mut |number, entry| {
            is_sound &= number == journal.last.0 + 1;
            journal.last = SequenceNumber(number);
            match Record::decode(entry) {
                Ok(entry) => records.push(entry),
                Err(_) => is_sound = false,
            }
        })?;
        if !is_sound {
            return Err(damaged("the log"));
        }
        // In this order: the first says in another way what the second says.
        for name in FACTS {
            if let Some(record) = record(name)? {
                journal.standing.note(&record, journal.last);
                records.push(record);
            }
        }
        Ok((journal, records))
    }

    pub(super) fn life(&self) -> Option<u64> {
        self.life
    }

    /// Adds to a batch in which of its server's lives the replica begins.
    pub(super) fn begin(&mut self, life: u64, batch: &mut Batch) {
        self.life = Some(life);
        put_fact(LIFE, life.to_be_bytes().into(), batch);
        self.count(batch);
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn copied(&self) -> ObjectId {
        self.copied
    }

    /// Adds to a batch that the state is copied up to this object.
    pub(super) fn copy_from(&mut self, next: ObjectId, batch: &mut Batch) {
        self.copied = next;
        put_fact(COPIED, next.0.to_be_bytes().into(), batch);
    }

    /// Adds to a batch that there is one more.
    pub(super) fn count(&mut self, batch: &mut Batch) {
        self.written += 1;
        put_fact(WRITTEN, self.written.to_be_bytes().into(), batch);
    }

    /// Adds to a batch what these records come to.
    pub(super) fn write(&mut self, records: &[Record], batch: &mut Batch) {
        self.count(batch);
        records.iter().for_each(|record| self.note(record, batch));
        if records.iter().any(|record| !matches!(record, Record::Append(_))) {
            for (name, record) in FACTS.into_iter().zip(self.standing.records()) {
                put_fact(name, encoded(&record), batch);
            }
        }
    }

    fn note(&mut self, record: &Record, batch: &mut Batch) {
        self.standing.note(record, self.last);
        match record {
            Record::View { .. } | Record::Ordered(_) | Record::Copying(false) => {}
            Record::Copying(true) => self.copy_from(ObjectId(0), batch),
            Record::Append(_) => self.append(encoded(record), batch),
            Record::Install { after, entries, .. } => {
                remove(after.0 + 1..=self.last.0, batch);
                self.last = *after;
                entries.iter().for_each(|entry| self.append(encoded(&Record::Append(entry.clone())), batch));
            }
            Record::Truncate(last) => {
                remove(last.0 + 1..=self.last.0, batch);
                self.last = self.last.min(*last);
            }
            Record::Checkpoint(checkpoint) => {
                remove(self.start.0 + 1..=self.last.0.min(checkpoint.at.0), batch);
                self.start = checkpoint.at;
                self.last = self.last.max(checkpoint.at);
                put_fact(CHECKPOINT, encoded(record), batch);
            }
            Record::Adopt(checkpoint) => {
                remove(self.start.0 + 1..=self.last.0, batch);
                (self.start, self.last) = (checkpoint.at, checkpoint.at);
                put_fact(CHECKPOINT, encoded(record), batch);
            }
        }
    }

    fn append(&mut self, entry: Vec<u8>, batch: &mut Batch) {
        self.last = self.last.next();
        batch.writes.push(EngineWrite::Put { object: LOG, sequence: self.last.0, entry });
    }
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

fn put_fact(name: &'static str, value: Vec<u8>, batch: &mut Batch) {
    batch.writes.push(EngineWrite::Fact { name, value });
}

fn remove(numbers: impl Iterator<Item = u64>, batch: &mut Batch) {
    batch.writes.extend(numbers.map(|sequence| EngineWrite::Remove { object: LOG, sequence }));
}
