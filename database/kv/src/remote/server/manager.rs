//! What one server does for all: it keeps the clock and the map.

use super::super::map::{Map, Replication};
use super::super::message::Message;
use super::{Load, Synced, Turn};
use crate::commit::{Commit, Restructuring, Write};
use crate::{Change, Database, Error, GroupId, ObjectId, Refusal, Timestamp};
use fulmar_node::{Lsn, NodeId};
use fulmar_transport::coding::{Reader, put_varint};
use std::collections::BTreeMap;

/// The clock may go so far beyond what was written down of it last; half as far, and it is written down again.
const AHEAD: u64 = 1 << 20;
/// The object that holds the cluster's records.
const RECORDS: ObjectId = ObjectId::new(GroupId(0), 0);
const BOUND: &[u8] = b"clock";
const MAP: &[u8] = b"map";

pub(super) struct Manager {
    records: Database,
    map: Map,
    now: Timestamp,
    /// The clock began below this bound, and another one is durable, or will be when this record is.
    bound: Timestamp,
    rising: Option<(Timestamp, Lsn)>,
    /// The oldest snapshot of each server's clients.
    oldest: BTreeMap<NodeId, Timestamp>,
    /// What each server holds and does.
    loads: BTreeMap<NodeId, Load>,
    /// Questions that wait until a bound is durable.
    unanswered: Vec<(NodeId, u64, u64)>,
    /// Who is told about which database, as soon as the map is durable.
    unmapped: Vec<(Lsn, NodeId, Option<String>)>,
}

impl Manager {
    /// From what is written down, at the address that others are to find it.
    pub(super) fn new(records: Database, me: NodeId, address: &str) -> Result<Self, Error> {
        let object = records.read(RECORDS)?;
        let at = records.newest();
        let get = |key| object.as_ref().and_then(|object| object.get(key, at).map(<[u8]>::to_vec));
        let damaged =
            |what| Error::Corrupt { path: records.path().into(), what: format!("{what} is damaged") };
        let bound = match get(BOUND) {
            Some(bytes) => Reader::new(&bytes).varint().ok_or_else(|| damaged("the clock"))?,
            None => 0,
        };
        let mut map = match get(MAP) {
            Some(bytes) => Map::decode(&mut Reader::new(&bytes)).ok_or_else(|| damaged("the map"))?,
            None => Map::default(),
        };
        map.keeper = me;
        if !map.has(me, address) {
            map.join(me, address);
        }
        let bound = Timestamp(bound);
        Ok(Self {
            records,
            map,
            now: bound,
            bound,
            rising: None,
            oldest: BTreeMap::new(),
            loads: BTreeMap::new(),
            unanswered: Vec::new(),
            unmapped: Vec::new(),
        })
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// Groups of databases that are made from now on are replicated so.
    pub(super) fn replicate(&mut self, replication: Replication) {
        self.map.replication = replication;
    }

    pub(super) fn records(&self) -> &Database {
        &self.records
    }

    /// Raises the bound of the clock, without which it does not go.
    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        self.raise(turn);
        if self.rising.is_none() {
            self.end(turn);
        }
    }

    /// Ends the server, whose disk has failed: what was not written cannot be made durable.
    fn end(&self, turn: &mut Turn<'_>) {
        turn.out.record(Synced::of(&self.records));
    }

    pub(super) fn clock(
        &mut self,
        from: NodeId,
        (number, goes_on): (u64, u64),
        (reached, oldest): (Timestamp, Timestamp),
        turn: &mut Turn<'_>,
    ) {
        self.now = self.now.max(reached);
        // No server has so many commits waiting.
        let goes_on = goes_on.min(AHEAD / 4);
        self.oldest.insert(from, oldest.min(self.now));
        if self.now.0 + AHEAD / 2 > self.bound.0 {
            self.raise(turn);
        }
        if self.now.0 + goes_on >= self.bound.0 {
            if self.rising.is_none() {
                self.end(turn);
            }
            self.unanswered.push((from, number, goes_on));
        } else {
            self.tell_time(from, (number, goes_on), turn);
        }
    }

    fn tell_time(&mut self, to: NodeId, (number, goes_on): (u64, u64), turn: &mut Turn<'_>) {
        let now = self.now;
        let watermark = self.oldest.values().min().map_or(now, |oldest| now.min(*oldest));
        self.now.0 += goes_on;
        let map = self.map.version;
        turn.send(to, Message::Time { number, now, reached: self.now, watermark, map });
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

    /// Changes the map, and tells `asker` when that is durable; if it has asked about a database, of that.
    pub(super) fn change(
        &mut self,
        (asker, about): (NodeId, Option<String>),
        change: impl FnOnce(&mut Map),
        turn: &mut Turn<'_>,
    ) -> Result<(), Error> {
        let mut map = self.map.clone();
        change(&mut map);
        let mut value = Vec::new();
        map.encode(&mut value);
        let lsn = self.write(MAP, value, turn)?;
        self.map = map;
        self.unmapped.push((lsn, asker, about));
        Ok(())
    }

    /// Tells a server the map.
    pub(super) fn tell_map(&self, to: NodeId, about: Option<String>, turn: &mut Turn<'_>) {
        turn.send(to, Message::Map { map: self.map.clone(), about });
    }

    fn write(&self, key: &[u8], value: Vec<u8>, turn: &mut Turn<'_>) -> Result<Lsn, Error> {
        let create = self.records.read(RECORDS)?.is_none();
        let commit = Commit {
            snapshot: self.records.storage().last(),
            restructurings: create.then_some(Restructuring::Create { object: RECORDS }).into_iter().collect(),
            writes: vec![Write {
                object: RECORDS,
                cleared: Vec::new(),
                changes: vec![Change { key: key.into(), value: Some(value.into()) }],
            }],
            ..Commit::default()
        };
        let at = self.records.execute(commit).map_err(|refusal| match refusal {
            Refusal::Misplaced(_) => unreachable!("one object for all keys"),
            Refusal::Failed(error) => error,
        })?;
        self.records.publish(at);
        Ok(turn.out.record(Synced::of(&self.records)))
    }

    pub(super) fn durable(&mut self, upto: Lsn, turn: &mut Turn<'_>) {
        if let Some((bound, lsn)) = self.rising
            && lsn <= upto
        {
            (self.bound, self.rising) = (bound, None);
            for (server, number, goes_on) in std::mem::take(&mut self.unanswered) {
                self.tell_time(server, (number, goes_on), turn);
            }
        }
        let due = self.unmapped.partition_point(|(lsn, ..)| *lsn <= upto);
        if due > 0 {
            for server in self.map.servers.keys() {
                self.tell_map(*server, None, turn);
            }
            for (_, asker, about) in self.unmapped.drain(..due).collect::<Vec<_>>() {
                self.tell_map(asker, about, turn);
            }
        }
    }
}
