//! Simulated disks, which lose in a crash what was not synced, and may be full.

mod databases;

use super::{Defect, MANAGER};
pub(super) use databases::Databases;
use fulmar_cluster::Synced;
use fulmar_cluster::replicated::{self, Left};
use fulmar_kv::engine::{Batch, Engine, EngineWrite, Memory};
use fulmar_kv::{Error, ObjectId};
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What was handed to disks, by server and database, batch by batch, each with how much was handed with it.
#[derive(Clone, Default)]
pub(crate) struct Disks(Arc<Mutex<BTreeMap<PathBuf, Disk>>>, pub(super) Arc<Mutex<Known>>);

/// What servers remember of each other, and those that forgot it.
#[derive(Default)]
pub(super) struct Known {
    servers: BTreeMap<NodeId, Vec<u8>>,
    pub(super) wiped: BTreeSet<NodeId>,
    /// How often servers have opened each.
    opened: BTreeMap<PathBuf, usize>,
    /// Whether their replicas make checkpoints after few operations, and copy their state in small parts.
    is_hurried: bool,
    /// Whether servers' disks are full.
    full: BTreeMap<NodeId, Arc<AtomicBool>>,
    /// Whether the cluster's own records find no room there either.
    fills_records: bool,
}

#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<Vec<(u64, Batch)>>>);

/// What the directory of a shard's replica is called.
const REPLICA: &str = "replica of ";

impl Disks {
    /// Of servers whose replicas make a checkpoint after few operations, and copy their state in small parts: so in a short run there
    /// are many of both.
    pub(crate) fn hurried() -> Self {
        let disks = Self::default();
        disks.1.lock().is_hurried = true;
        disks
    }

    pub(super) fn get(&self, name: &Path) -> Disk {
        self.0.lock().entry(name.into()).or_default().clone()
    }

    fn remove(&self, name: &Path) {
        self.0.lock().remove(name);
    }

    /// Forgets all that a server has ever written.
    pub(crate) fn wipe(&self, server: NodeId) {
        self.0.lock().retain(|name, _| !name.starts_with(server.to_string()));
        self.1.lock().servers.remove(&server);
        self.1.lock().wiped.insert(server);
    }

    /// How often servers have opened each whose name has this in it.
    pub(crate) fn opened(&self, name: &str) -> Vec<usize> {
        let known = self.1.lock();
        let of = known.opened.iter().filter(|(opened, _)| opened.to_string_lossy().contains(name));
        of.map(|(_, count)| *count).collect()
    }

    fn open(&self, name: &Path) -> Disk {
        *self.1.lock().opened.entry(name.into()).or_default() += 1;
        self.get(name)
    }

    /// Of servers that can write nothing of the cluster's own records either when their disk is full.
    pub(crate) fn of_all() -> Self {
        let disks = Self::default();
        disks.1.lock().fills_records = true;
        disks
    }

    /// Whether the server's disk is full: nothing of its shards and replicas can be written there then, nor synced.
    pub(crate) fn full(&self, server: NodeId) -> Arc<AtomicBool> {
        Arc::clone(self.1.lock().full.entry(server).or_default())
    }

    /// Loses all that a server's replicas hold, but for what they have written down of themselves.
    pub(crate) fn lose_objects(&self, server: NodeId) {
        let is_object =
            |write: &EngineWrite| matches!(write, EngineWrite::Put { object, .. } if object.0 < u64::MAX);
        for (name, disk) in self.0.lock().iter().filter(|(name, _)| name.starts_with(server.to_string())) {
            if name.to_string_lossy().contains(REPLICA) {
                disk.0
                    .lock()
                    .iter_mut()
                    .for_each(|(_, batch)| batch.writes.retain(|write| !is_object(write)));
            }
        }
    }

    /// What differs among the replicas of any shard, on disks that nobody writes to any more.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut shards = BTreeMap::<String, Vec<Left>>::new();
        let disks = self.0.lock().clone();
        for (path, disk) in &disks {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if let Some(shard) = name.strip_prefix(REPLICA) {
                let engine = disk.engine(Defect::Nothing);
                let left = Left::open(path, Arc::new(engine)).expect("a sound disk");
                shards.entry(shard.into()).or_default().extend(left);
            }
        }
        let of = |(shard, replicas)| {
            let found = replicated::differences(replicas).expect("memory");
            found.into_iter().map(move |difference| format!("replicas of {shard}: {difference}"))
        };
        shards.into_iter().flat_map(of).collect()
    }

    /// A server that is already there, or was when this one began.
    pub(super) fn known(&self, server: NodeId) -> NodeId {
        match server {
            MANAGER => NodeId(1),
            NodeId(1) if self.1.lock().wiped.contains(&MANAGER) => NodeId(2),
            _ if self.1.lock().wiped.contains(&MANAGER) => NodeId(1),
            _ => MANAGER,
        }
    }

    /// Forgets what a server has not synced.
    pub(super) fn crash(&self, server: NodeId, records: &[Synced]) {
        let synced = synced(records);
        for (name, disk) in self.0.lock().iter().filter(|(name, _)| name.starts_with(server.to_string())) {
            let synced = synced.get(&**name).copied().unwrap_or(0);
            disk.0.lock().retain(|(sequence, _)| *sequence <= synced);
        }
    }
}

/// Up to where each engine was synced.
pub(super) fn synced(records: &[Synced]) -> BTreeMap<&Path, u64> {
    records.iter().map(|record| (record.path(), record.sequence())).collect()
}

impl Disk {
    /// What came later than this is not synced, whatever is said of it.
    pub(super) fn lose_after(&self, last: u64) {
        let mut batches = self.0.lock();
        batches.iter_mut().filter(|(sequence, _)| *sequence > last).for_each(|(s, _)| *s = u64::MAX);
    }

    fn engine(&self, defect: Defect) -> Recorded {
        let memory = Memory::default();
        for (_, batch) in self.0.lock().iter() {
            memory.write(defect.on_disk(batch)).unwrap();
        }
        Recorded { memory, disk: self.clone(), is_full: Arc::default() }
    }
}

/// An engine on a [`Disk`].
struct Recorded {
    memory: Memory,
    disk: Disk,
    is_full: Arc<AtomicBool>,
}

impl Recorded {
    fn require_room(&self) -> Result<(), Error> {
        if self.is_full.load(Relaxed) {
            return Err(Error::Io { path: "disk".into(), source: io::ErrorKind::StorageFull.into() });
        }
        Ok(())
    }
}

impl Engine for Recorded {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.require_room()?;
        let fact = |wanted: &str| {
            batch.writes.iter().rev().find_map(|write| match write {
                EngineWrite::Fact { name, value } if *name == wanted => Some(&**value),
                _ => None,
            })
        };
        // A replica counts what it writes.
        let sequence = match fact("written") {
            Some(written) => u64::from_be_bytes(written.try_into().unwrap()),
            None => second_varint(fact("state").expect("a state in each batch")),
        };
        self.disk.0.lock().push((sequence, batch.clone()));
        self.memory.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        self.require_room()?;
        // What no record stands for, and no crash takes.
        self.disk.0.lock().iter_mut().for_each(|(sequence, _)| *sequence = 0);
        Ok(())
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        self.memory.load(object, visit)
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.memory.next(from)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.memory.fact(name)
    }
}

fn second_varint(bytes: &[u8]) -> u64 {
    let first = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number");
    let mut n = 0;
    for (place, byte) in bytes[first + 1..].iter().enumerate() {
        n |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    n
}
