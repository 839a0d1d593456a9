//! What one server does for all: it keeps the clock and the map.
//!
//! *Known as:* timestamp oracle and placement driver.

use super::ledger::Ledger;
use super::{Synced, Turn};
use crate::map::{Map, RECORDS, Replicas};
use crate::message::Message;
use crate::name::DatabaseName;
use crate::status::Load;
use fulmar_coding::{Reader, put_varint};
use fulmar_kv::{Commit, Restructuring, Write};
use fulmar_kv::{Database, Error, ObjectId, Refusal, ShardId, Timestamp};
use fulmar_node::{Lsn, NodeId};
use fulmar_replication::{Group, View};
use std::collections::BTreeMap;

/// The clock may go so far beyond what was written down of it last; half as far, and it is written down again.
const AHEAD: u64 = 1 << 20;
/// For so many sweeps a server may be silent before it is taken to hold no snapshots.
const SILENT: u32 = 20;
/// The object that holds the cluster's records.
const OBJECT: ObjectId = ObjectId::new(ShardId(0), 0);
const BOUND: &[u8] = b"clock";
const MAP: &[u8] = b"map";

pub(super) struct Manager {
    /// Nothing while they are to be opened again, as their disk has failed.
    records: Option<Database>,
    ledger: Ledger,
    map: Map,
    /// When the map as it is will be durable; the last version of it that others were told; and who else is to be told, and
    /// about which database.
    changed: Lsn,
    told: u64,
    unmapped: Vec<(NodeId, Option<DatabaseName>)>,
    now: Timestamp,
    /// The clock began below this bound, and another one is durable, or will be when this record is.
    bound: Timestamp,
    rising: Option<(Timestamp, Lsn)>,
    /// The oldest snapshot of each server's clients.
    oldest: BTreeMap<NodeId, Timestamp>,
    sweeps: u32,
    /// What each server holds and does.
    loads: BTreeMap<NodeId, Load>,
    /// Questions, to be answered if this server keeps the clock and the map still: about those that came first the replicas
    /// are asked.
    asked: Vec<Asked>,
    confirming: Vec<Asked>,
    /// Questions that wait until a bound is durable.
    unanswered: Vec<Asked>,
}

struct Asked {
    by: NodeId,
    what: What,
}

enum What {
    /// Where is the clock? It is to go on by so much.
    Time { number: u64, goes_on: u64 },
    /// What is the map? If it is about a database, where is that?
    Map { about: Option<DatabaseName> },
}

impl Manager {
    /// From what is written down in `records`, or if that is nothing yet, in `before`.
    pub(super) fn new(records: Database, ledger: Ledger, before: Option<&Database>) -> Result<Self, Error> {
        let mut found = Self::read(&records)?;
        if let ((None, _), Some(before)) = (&found, before) {
            found = Self::read(before)?;
        }
        let (map, bound) = found;
        let map = map.unwrap_or_default();
        Ok(Self {
            records: Some(records),
            ledger,
            told: map.version,
            map,
            changed: Lsn(0),
            unmapped: Vec::new(),
            now: bound,
            bound,
            rising: None,
            oldest: BTreeMap::new(),
            sweeps: 0,
            loads: BTreeMap::new(),
            asked: Vec::new(),
            confirming: Vec::new(),
            unanswered: Vec::new(),
        })
    }

    fn read(records: &Database) -> Result<(Option<Map>, Timestamp), Error> {
        let object = records.read(OBJECT)?;
        let at = records.newest();
        let get = |key| object.as_ref().and_then(|object| object.get(key, at).map(<[u8]>::to_vec));
        let damaged =
            |what| Error::Corrupt { path: records.path().into(), what: format!("{what} is damaged") };
        let bound = match get(BOUND) {
            Some(bytes) => Reader::new(&bytes).varint().ok_or_else(|| damaged("the clock"))?,
            None => 0,
        };
        let decode = |bytes: Vec<u8>| Map::decode(&mut Reader::new(&bytes)).ok_or_else(|| damaged("the map"));
        Ok((get(MAP).map(decode).transpose()?, Timestamp(bound)))
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// Where the clock is.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn records(&self) -> Option<&Database> {
        self.records.as_ref()
    }

    /// Whether a write to the disk has failed, which nobody else makes good.
    pub(super) fn has_failed(&self) -> bool {
        let has_failed = |records: &Database| records.storage().has_failed();
        matches!(self.ledger, Ledger::Disk) && self.records.as_ref().is_none_or(has_failed)
    }

    /// Whoever opens them now finds them closed.
    pub(super) fn close(&mut self) {
        self.records = None;
    }

    /// Goes on with records whose disk had failed. What could not be told may be there.
    pub(super) fn reopen(&mut self, records: Database, turn: &mut Turn<'_>) -> Result<(), Error> {
        let (map, bound) = Self::read(&records)?;
        if let Some(map) = map.filter(|map| map.version > self.map.version) {
            self.map = map;
        }
        (self.bound, self.rising, self.changed) = (self.bound.max(bound), None, Lsn(0));
        self.records = Some(records);
        self.raise(turn);
        std::mem::take(&mut self.unanswered).into_iter().for_each(|asked| self.answer(asked, turn));
        self.tell(turn);
        Ok(())
    }

    /// Keeps clock and map from now on; if with replicas, as the leader of this view of theirs.
    pub(super) fn start(&mut self, leads: Option<(View, Group)>, turn: &mut Turn<'_>) {
        // Without a higher bound the clock does not go.
        self.raise(turn);
        if self.rising.is_none() {
            self.end(turn);
        }
        let (me, address, replication) = (turn.known.me, turn.known.address.clone(), turn.known.replication);
        let is_changed = leads.is_some()
            || self.map.manager != me
            || !self.map.has(me, &address)
            || replication.is_some_and(|replication| replication != self.map.replication);
        let keep = |map: &mut Map| {
            map.manager = me;
            map.replication = replication.unwrap_or(map.replication);
            map.join(me, &address);
            if let Some(leads) = leads {
                map.records.get_or_insert_with(|| Replicas::of_records(me));
                map.lead(RECORDS, me, leads);
            }
        };
        if is_changed {
            // If the disk fails, others hear nothing of it.
            let changed = self.change(keep, turn);
            turn.report(|_| "write down the map".into(), changed);
        }
    }

    /// Ends the server, whose disk has failed: what was not written cannot be made durable. (If the replicas have failed it,
    /// another server keeps the clock.)
    fn end(&self, turn: &mut Turn<'_>) {
        if let (Ledger::Disk, Some(records)) = (&self.ledger, &self.records) {
            turn.out.record(Synced::of(records));
        }
    }

    pub(super) fn clock(
        &mut self,
        from: NodeId,
        (number, goes_on): (u64, u64),
        (reached, oldest): (Timestamp, Timestamp),
        turn: &mut Turn<'_>,
    ) {
        self.now = self.now.max(reached);
        self.oldest.insert(from, oldest.min(self.now));
        if self.now.0 + AHEAD / 2 > self.bound.0 {
            self.raise(turn);
        }
        // No server has so many commits waiting.
        let what = What::Time { number, goes_on: goes_on.min(AHEAD / 4) };
        self.ask(Asked { by: from, what }, turn);
    }

    fn ask(&mut self, asked: Asked, turn: &mut Turn<'_>) {
        match self.ledger {
            Ledger::Disk => self.answer(asked, turn),
            Ledger::Replicas(_) => self.asked.push(asked),
        }
    }

    /// Whether the replicas are to be asked if this server keeps clock and map still. They are now, if so.
    pub(super) fn asks(&mut self) -> bool {
        self.confirming.append(&mut self.asked);
        !self.confirming.is_empty()
    }

    /// It still did when they were asked, and did when what they were asked about came.
    pub(super) fn is_confirmed(&mut self, turn: &mut Turn<'_>) {
        std::mem::take(&mut self.confirming).into_iter().for_each(|asked| self.answer(asked, turn));
    }

    fn answer(&mut self, Asked { by, what }: Asked, turn: &mut Turn<'_>) {
        match what {
            What::Map { about } => {
                self.unmapped.push((by, about));
                self.tell(turn);
            }
            What::Time { number, goes_on } if self.now.0 + goes_on < self.bound.0 => {
                self.tell_time(by, (number, goes_on), turn);
            }
            What::Time { .. } => {
                if self.rising.is_none() {
                    self.end(turn);
                }
                self.unanswered.push(Asked { by, what });
            }
        }
    }

    fn tell_time(&mut self, by: NodeId, (number, goes_on): (u64, u64), turn: &mut Turn<'_>) {
        let now = self.now;
        let watermark = self.watermark();
        self.now.0 += goes_on;
        turn.send(by, Message::Time { number, now, reached: self.now, watermark, map: self.told });
    }

    /// No snapshot is older.
    fn watermark(&self) -> Timestamp {
        let is_silent = |server: &NodeId| !self.oldest.contains_key(server);
        if self.sweeps < SILENT && self.map.servers.keys().any(is_silent) {
            return Timestamp(0);
        }
        self.oldest.values().min().map_or(self.now, |oldest| self.now.min(*oldest))
    }

    pub(super) fn sweep(&mut self) {
        self.sweeps = self.sweeps.saturating_add(1);
    }

    /// A server has gone, and what its clients have seen with it.
    pub(super) fn forget(&mut self, server: NodeId) {
        self.oldest.remove(&server);
        self.loads.remove(&server);
    }

    /// What a server holds and does; answers that of all.
    pub(super) fn load(&mut self, server: NodeId, load: Load) -> BTreeMap<NodeId, Load> {
        self.loads.insert(server, load);
        self.loads.clone()
    }

    fn raise(&mut self, turn: &mut Turn<'_>) {
        if self.rising.is_some_and(|(bound, _)| bound.0 > self.now.0 + AHEAD / 2) {
            return;
        }
        let bound = Timestamp(self.now.0 + AHEAD);
        let mut value = Vec::new();
        put_varint(&mut value, bound.0);
        // If the disk fails, the clock goes on to the bound that there is.
        if let Ok(lsn) = self.write(BOUND, value, turn) {
            self.rising = Some((bound, lsn));
        }
    }

    /// Changes the map, and tells all servers when that is durable.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Map), turn: &mut Turn<'_>) -> Result<(), Error> {
        let mut map = self.map.clone();
        change(&mut map);
        let mut value = Vec::new();
        map.encode(&mut value);
        self.changed = self.write(MAP, value, turn)?;
        self.map = map;
        Ok(())
    }

    /// Tells a server the map, and what has become of a database, when the map is durable.
    pub(super) fn tell_map(&mut self, to: NodeId, about: Option<DatabaseName>, turn: &mut Turn<'_>) {
        self.ask(Asked { by: to, what: What::Map { about } }, turn);
    }

    fn tell(&mut self, turn: &mut Turn<'_>) {
        if self.changed > self.ledger.durable(turn) {
            return;
        }
        let everybody = self.map.servers.keys().filter(|_| self.told < self.map.version);
        let told = everybody.map(|server| (*server, None)).chain(self.unmapped.drain(..));
        told.for_each(|(to, about)| turn.send(to, Message::Map { map: self.map.clone(), about }));
        self.told = self.map.version;
    }

    fn write(&self, key: &[u8], value: Vec<u8>, turn: &mut Turn<'_>) -> Result<Lsn, Error> {
        let Some(records) = &self.records else {
            let why = std::io::Error::other("they are closed, as their disk has failed");
            return Err(Error::io(std::path::Path::new("the cluster's records"), why));
        };
        let create = records.read(OBJECT)?.is_none();
        let commit = Commit {
            snapshot: records.storage().last(),
            restructurings: create.then_some(Restructuring::Create { object: OBJECT }).into_iter().collect(),
            writes: vec![Write {
                object: OBJECT,
                cleared: Vec::new(),
                changes: [(key, Some(&*value))].into_iter().collect(),
            }],
            ..Commit::default()
        };
        let at = records.execute(&commit).map_err(|refusal| match refusal {
            Refusal::Misplaced(_) => unreachable!("one object for all keys"),
            Refusal::Failed(error) => error,
        })?;
        records.publish(at);
        Ok(self.ledger.record(records, turn))
    }

    /// More may be durable.
    pub(super) fn durable(&mut self, turn: &mut Turn<'_>) {
        if let Some((bound, lsn)) = self.rising
            && lsn <= self.ledger.durable(turn)
        {
            (self.bound, self.rising) = (bound, None);
            std::mem::take(&mut self.unanswered).into_iter().for_each(|asked| self.answer(asked, turn));
        }
        self.tell(turn);
    }
}
