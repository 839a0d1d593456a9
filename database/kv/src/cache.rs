//! Objects in memory, up to a number of bytes: second chance decides which to forget.

use crate::{Error, Object, ObjectId};
use foldhash::fast::RandomState;
use fulmar_locks::RwLock;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const STRIPES: usize = 64;

/// Objects in memory, as many as fit: those that were used least lately go first.
///
/// *Known as:* buffer pool, page cache; CLOCK.
pub struct Cache {
    stripes: Box<[RwLock<Stripe>]>,
    /// What one stripe may hold, bytes.
    limit: usize,
}

#[derive(Default)]
struct Stripe {
    objects: HashMap<ObjectId, Cached, RandomState>,
    /// Every object of the stripe, once, in the order in which they are considered for eviction.
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
    /// An empty one that holds at most so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { stripes: (0..STRIPES).map(|_| RwLock::default()).collect(), limit: bytes / STRIPES }
    }

    fn stripe(&self, id: ObjectId) -> &RwLock<Stripe> {
        // Names are given in turn: their last byte spreads them evenly.
        let [.., low] = id.0.to_be_bytes();
        &self.stripes[usize::from(low) % STRIPES]
    }

    /// The object from memory, or else as `load` finds it, which is then remembered.
    pub(crate) fn get(
        &self,
        id: ObjectId,
        load: impl Fn() -> Result<Option<Object>, Error>,
    ) -> Result<Option<Arc<Object>>, Error> {
        loop {
            let generation = {
                let stripe = self.stripe(id).read();
                if let Some(object) = stripe.known(id) {
                    return Ok(Some(object));
                }
                stripe.generation
            };
            let Some(object) = load()?.map(Arc::new) else {
                if self.stripe(id).read().generation == generation {
                    return Ok(None);
                }
                continue;
            };
            let mut stripe = self.stripe(id).write();
            if stripe.generation == generation {
                stripe.put(id, object.clone(), self.limit);
                return Ok(Some(object));
            }
        }
    }

    /// The object, if it is in memory.
    pub fn known(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.stripe(id).read().known(id)
    }

    /// Makes `object` what readers find from now on.
    pub fn store(&self, id: ObjectId, object: Option<Arc<Object>>) {
        let mut stripe = self.stripe(id).write();
        stripe.generation += 1;
        match object {
            Some(object) => stripe.put(id, object, self.limit),
            None => stripe.remove(id),
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.stripes.iter().map(|s| s.read().bytes).sum()
    }
}

impl Stripe {
    fn known(&self, id: ObjectId) -> Option<Arc<Object>> {
        let cached = self.objects.get(&id)?;
        if !cached.used.load(Relaxed) {
            cached.used.store(true, Relaxed);
        }
        Some(cached.object.clone())
    }

    fn put(&mut self, id: ObjectId, object: Arc<Object>, limit: usize) {
        self.bytes += object.memory();
        match self.objects.insert(id, Cached { object, used: AtomicBool::new(false) }) {
            Some(old) => self.give_back(&old),
            None => self.queue.push_back(id),
        }
        // One object always stays, or nothing larger than a stripe's share could ever be read twice.
        while self.bytes > limit && self.queue.len() > 1 {
            let Some(candidate) = self.queue.pop_front() else { break };
            let is_used = self.objects.get(&candidate).is_some_and(|cached| cached.used.swap(false, Relaxed));
            if candidate == id || is_used {
                self.queue.push_back(candidate);
            } else {
                self.forget(candidate);
            }
        }
        assert_eq!(self.queue.len(), self.objects.len(), "what is cached is considered for eviction, once");
    }

    fn forget(&mut self, id: ObjectId) {
        if let Some(old) = self.objects.remove(&id) {
            self.give_back(&old);
        }
    }

    fn give_back(&mut self, old: &Cached) {
        let bytes = old.object.memory();
        assert!(bytes <= self.bytes, "{bytes} bytes were counted as no more than {}", self.bytes);
        self.bytes -= bytes;
    }

    /// Forgets an object that is no more. Rare enough, by merges and drops, for a look through the queue.
    fn remove(&mut self, id: ObjectId) {
        if self.objects.contains_key(&id) {
            self.forget(id);
            self.queue.retain(|queued| *queued != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Interval, Timestamp};
    use fulmar_node::Random;
    use fulmar_sim::seeds;
    use std::collections::BTreeMap;

    /// `version` tells it from others of its name.
    fn object(id: ObjectId, version: u64, bytes: usize) -> Object {
        let change = Change { key: (*b"key").into(), value: Some(vec![0; bytes].into()) };
        let empty = Object::empty(id, Interval::everything(), 0);
        empty.apply(&vec![change].into(), Timestamp(version), Timestamp(0))
    }

    fn invariants(cache: &Cache, largest: usize) {
        for stripe in &cache.stripes {
            let stripe = stripe.read();
            let bytes: usize = stripe.objects.values().map(|cached| cached.object.memory()).sum();
            assert_eq!(stripe.bytes, bytes);
            assert!(bytes <= cache.limit || stripe.objects.len() == 1 && bytes <= largest);
            assert_eq!(stripe.queue.len(), stripe.objects.len());
            assert!(stripe.queue.iter().all(|id| stripe.objects.contains_key(id)));
        }
    }

    /// A cache in front of a map that loads are answered from.
    #[test]
    fn readers_find_what_was_stored_last_and_the_bound_holds() {
        seeds("readers_find_what_was_stored_last_and_the_bound_holds", 0..100, |seed| {
            let mut random = Random::new(seed.number);
            let cache = Cache::new(1 << random.below(22));
            let mut stored = BTreeMap::new();
            let ids = 1 + random.below(300);
            let mut largest = 0;
            for version in 1..1000 {
                let id = ObjectId(random.below(ids));
                let bound = 1 << random.below(14);
                let bytes = random.index(bound);
                if random.one_in(3) {
                    let new = (!random.one_in(5)).then_some((version, bytes));
                    cache.store(id, new.map(|(version, bytes)| Arc::new(object(id, version, bytes))));
                    largest = largest.max(new.map_or(0, |_| object(id, version, bytes).memory()));
                    match new {
                        Some(new) => stored.insert(id, new),
                        None => stored.remove(&id),
                    };
                } else {
                    let load = || Ok(stored.get(&id).map(|(version, bytes)| object(id, *version, *bytes)));
                    let found = cache.get(id, load).expect("loads").map(|object| object.newest().0);
                    assert_eq!(found, stored.get(&id).map(|(version, _)| *version));
                }
                invariants(&cache, largest);
            }
            Ok(())
        });
    }

    #[test]
    fn what_is_loaded_while_it_is_stored_or_removed_is_not_kept() {
        for last in [Some(2), None] {
            let cache = Cache::new(1 << 20);
            let id = ObjectId(7);
            let loads = std::cell::Cell::new(0);
            let newest = last.map(|version| Arc::new(object(id, version, 10)));
            let found = cache.get(id, || {
                loads.set(loads.get() + 1);
                if loads.get() == 1 {
                    // The load has seen the object as it was before a commit that is faster.
                    cache.store(id, newest.clone());
                    if last.is_some() {
                        cache.stripe(id).write().remove(id);
                    }
                    return Ok(Some(object(id, 1, 10)));
                }
                Ok(last.map(|version| object(id, version, 10)))
            });
            assert_eq!(found.expect("loads").map(|object| object.newest().0), last);
            assert_eq!(loads.get(), 2);
        }
    }

    #[test]
    fn a_failed_load_leaves_nothing_behind() {
        let cache = Cache::new(1 << 20);
        assert!(cache.get(ObjectId(7), || Err(Error::Conflict)).is_err());
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn what_is_read_again_outlives_what_is_not() {
        let size = object(ObjectId(0), 1, 1000).memory();
        let cache = Cache::new(STRIPES * size * 4);
        let stripes = u64::try_from(STRIPES).expect("small");
        for n in 0..100 {
            cache.store(ObjectId(n * stripes), Some(Arc::new(object(ObjectId(n * stripes), 1, 1000))));
            let hot = cache.get(ObjectId(0), || panic!("object 0 was forgotten after {n} others"));
            assert!(hot.expect("cached").is_some());
        }
    }
}
