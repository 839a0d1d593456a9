//! Objects of which much is stale, until no snapshot keeps them so.

use super::Storage;
use crate::{ObjectId, Timestamp};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// When so many objects were rewritten that were mostly stale, the engine is told, and how large one is, about, bytes.
const COLLECTED: u64 = 1 << 10;
const COLLECTED_BYTES: u64 = 8 << 10;

/// Objects that are worth a [`crate::Restructuring::Collect`] as soon as no snapshot is older, each once, however often
/// it changes under an old snapshot.
#[derive(Default)]
pub(super) struct Stale {
    by_time: BTreeSet<(Timestamp, ObjectId)>,
    objects: BTreeSet<ObjectId>,
    /// Those with which nothing could be done yet.
    put_off: Vec<ObjectId>,
}

impl Stale {
    pub(super) fn note(&mut self, at: Timestamp, object: ObjectId) {
        if self.objects.insert(object) {
            self.by_time.insert((at, object));
        }
    }

    fn pop(&mut self, watermark: Timestamp) -> Option<ObjectId> {
        let (_, object) = self.by_time.first().filter(|(at, _)| *at <= watermark)?;
        self.objects.remove(object);
        self.by_time.pop_first().map(|(_, object)| object)
    }
}

impl Storage {
    /// Whether [`Storage::stale`] may find something to do.
    pub(crate) fn has_stale(&self) -> bool {
        !self.stale.lock().objects.is_empty() || self.collected.load(Relaxed) >= COLLECTED
    }

    /// Up to `limit` objects of which much is stale, and that no snapshot keeps so.
    pub(crate) fn stale(&self, limit: usize) -> Vec<ObjectId> {
        let watermark = self.snapshots.lock().watermark();
        let mut stale = self.stale.lock();
        let due: Vec<_> = std::iter::from_fn(|| stale.pop(watermark)).take(limit).collect();
        drop(stale);
        let collected = self.collected.fetch_add(due.len() as u64, Relaxed);
        if due.is_empty() && collected >= COLLECTED {
            self.collected.store(0, Relaxed);
            self.engine.compact(collected * COLLECTED_BYTES);
        }
        due
    }

    /// Has [`Storage::stale`] find an object again, after the next [`Storage::resume`].
    pub(crate) fn put_off(&self, object: ObjectId) {
        self.stale.lock().put_off.push(object);
    }

    /// What was put off is taken up again, behind what waits already.
    pub(crate) fn resume(&self) {
        let watermark = self.snapshots.lock().watermark();
        let mut stale = self.stale.lock();
        for object in std::mem::take(&mut stale.put_off) {
            stale.note(watermark, object);
        }
    }
}
