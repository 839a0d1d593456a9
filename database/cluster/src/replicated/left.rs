//! What replicas have left on their disks, for who compares them.

use super::Entries;
use fulmar_kv::engine::Engine;
use fulmar_kv::{Error, ObjectId};
use fulmar_node::NodeId;
use fulmar_replication::{Group, Log, Member, Options, Protocol, Record, Replica};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A replica whose server has ended.
pub struct Left {
    replica: Replica<Entries>,
    entries: Entries,
    engine: Arc<dyn Engine>,
}

/// The entries of a shard, by object and sequence number.
type Contents = BTreeMap<(ObjectId, u64), Vec<u8>>;

impl Left {
    /// What is in `engine`, which messages call `path`; nothing, if the replica was copying, and so has not all that its shard has.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and what the engine answers.
    pub fn open(path: &Path, engine: Arc<dyn Engine>) -> Result<Option<Self>, Error> {
        let (entries, records) = Entries::open(path, Arc::clone(&engine))?;
        if records.contains(&Record::Copying(true)) {
            return Ok(None);
        }
        // What it carries out depends neither on who it is nor on who else is there.
        let me = Member { node: NodeId(0), incarnation: 0 };
        let group = Group::new([me.node], Protocol::Viewstamped);
        let group = group.map_err(|error| Error::io(path, io::Error::other(error)))?;
        let replica = Replica::new(me, group, Options::default(), entries.clone(), &records);
        Ok(Some(Self { replica, entries, engine }))
    }

    /// What it holds when all of `log` is carried out; nothing, if its own log is not the beginning of that.
    fn contents(mut self, log: &Log) -> Result<Option<Contents>, Error> {
        if !self.replica.carry_out(log) {
            return Ok(None);
        }
        while self.entries.is_behind() {
            self.entries.store(&[])?;
        }
        let mut contents = Contents::new();
        let mut next = self.entries.next(ObjectId(0))?;
        while let Some(object) = next {
            self.engine.load(object, &mut |sequence, entry| {
                contents.insert((object, sequence), entry.into());
            })?;
            next = self.entries.next(ObjectId(object.0 + 1))?;
        }
        Ok(Some(contents))
    }
}

/// What differs among replicas of a shard that has ended, after all that the longest of their logs holds, each with what it differs in;
/// empty if nothing does. All of the logs is taken for committed.
///
/// # Errors
/// What their engines answer.
pub fn differences(replicas: Vec<Left>) -> Result<Vec<String>, Error> {
    let longest = replicas.iter().map(|left| left.replica.log().clone()).max_by_key(Log::last);
    let Some(longest) = longest else { return Ok(Vec::new()) };
    let contents = replicas.into_iter().map(|left| left.contents(&longest));
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::new();
    if contents.iter().any(Option::is_none) {
        found.push("a log is not the beginning of another".into());
    }
    let contents: Vec<_> = contents.into_iter().flatten().collect();
    let all: BTreeSet<_> = contents.iter().flatten().collect();
    let is_everywhere = |(place, entry): &(&(ObjectId, u64), &Vec<u8>)| {
        contents.iter().all(|held| held.get(place) == Some(entry))
    };
    let objects: BTreeSet<_> =
        all.iter().filter(|entry| !is_everywhere(entry)).map(|((object, _), _)| *object).collect();
    found.extend(objects.into_iter().map(|object| {
        let of = |held: &Contents| {
            let entries = held.range((object, 0)..=(object, u64::MAX));
            let entries = entries.map(|((_, sequence), entry)| format!("{sequence}:{}", entry.len()));
            entries.collect::<Vec<_>>().join(" ")
        };
        let each: Vec<_> = contents.iter().map(of).collect();
        format!("object {:x}, its entries and how long they are: [{}]", object.0, each.join("] ["))
    }));
    Ok(found)
}
