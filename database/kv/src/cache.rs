//! Objects in memory, up to a number of bytes: second chance decides which to forget.

use crate::{Error, Object, ObjectId};
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SHARDS: usize = 64;

pub(crate) struct Cache {
    shards: Box<[RwLock<Shard>]>,
    /// What one shard may hold, bytes.
    limit: usize,
}

#[derive(Default)]
struct Shard {
    objects: HashMap<ObjectId, Cached, RandomState>,
    /// Every object of the shard, in the order in which they are considered for eviction, and some removed ones.
    queue: VecDeque<ObjectId>,
    bytes: usize,
    /// Changes with every store, so that a load that raced with one is not kept.
    generation: u64,
}

struct Cached {
    object: Arc<Object>,
    used: AtomicBool,
}

impl Cache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), limit: bytes / SHARDS }
    }

    fn shard(&self, id: ObjectId) -> &RwLock<Shard> {
        // Names are given in turn: their last byte spreads them evenly.
        let [.., low] = id.0.to_be_bytes();
        &self.shards[usize::from(low) % SHARDS]
    }

    /// The object from memory, or else as `load` finds it, which is then remembered.
    pub(crate) fn get(
        &self,
        id: ObjectId,
        load: impl Fn() -> Result<Option<Object>, Error>,
    ) -> Result<Option<Arc<Object>>, Error> {
        loop {
            let generation = {
                let shard = self.shard(id).read();
                if let Some(cached) = shard.objects.get(&id) {
                    if !cached.used.load(Relaxed) {
                        cached.used.store(true, Relaxed);
                    }
                    return Ok(Some(cached.object.clone()));
                }
                shard.generation
            };
            let Some(object) = load()?.map(Arc::new) else {
                if self.shard(id).read().generation == generation {
                    return Ok(None);
                }
                continue;
            };
            let mut shard = self.shard(id).write();
            if shard.generation == generation {
                shard.put(id, object.clone(), self.limit);
                return Ok(Some(object));
            }
        }
    }

    /// Makes `object` what readers find from now on.
    pub(crate) fn store(&self, id: ObjectId, object: Option<Arc<Object>>) {
        let mut shard = self.shard(id).write();
        shard.generation += 1;
        match object {
            Some(object) => shard.put(id, object, self.limit),
            None => shard.forget(id),
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.read().bytes).sum()
    }
}

impl Shard {
    fn put(&mut self, id: ObjectId, object: Arc<Object>, limit: usize) {
        self.bytes += object.memory();
        match self.objects.insert(id, Cached { object, used: AtomicBool::new(false) }) {
            Some(old) => self.bytes -= old.object.memory(),
            None => self.queue.push_back(id),
        }
        // One object always stays, or nothing larger than a shard's share could ever be read twice.
        while self.bytes > limit && self.queue.len() > 1 {
            let Some(candidate) = self.queue.pop_front() else { break };
            let Some(cached) = self.objects.get(&candidate) else { continue };
            if candidate == id || cached.used.swap(false, Relaxed) {
                self.queue.push_back(candidate);
            } else {
                self.forget(candidate);
            }
        }
    }

    fn forget(&mut self, id: ObjectId) {
        if let Some(old) = self.objects.remove(&id) {
            self.bytes -= old.object.memory();
        }
    }
}
