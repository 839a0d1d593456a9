//! Which snapshots are open, and up to which commit readers see.
//!
//! *Known as:* MVCC read views; the watermark is the low-water mark of MVCC garbage collection.

use super::Storage;
use crate::Timestamp;
use std::collections::BTreeMap;

pub(super) struct Snapshots {
    /// The newest commit that readers see.
    pub(super) published: Timestamp,
    /// How many read each snapshot.
    pub(super) open: BTreeMap<Timestamp, usize>,
    /// No snapshot elsewhere is older: from a cluster, which also knows of those.
    pub(super) elsewhere: Option<Timestamp>,
}

impl Snapshots {
    /// No open snapshot is older, and none that is opened later will be.
    pub(super) fn watermark(&self) -> Timestamp {
        let newest = self.elsewhere.unwrap_or(self.published);
        self.open.keys().next().map_or(newest, |oldest| newest.min(*oldest))
    }
}

impl Storage {
    /// Keeps all that is published readable until [`Storage::close_snapshot`].
    pub(crate) fn open_snapshot(&self) -> Timestamp {
        let mut snapshots = self.snapshots.lock();
        let at = snapshots.published;
        *snapshots.open.entry(at).or_default() += 1;
        at
    }

    /// Keeps readable what this snapshot saw, which was open when the database was last closed.
    pub(crate) fn reopen_snapshot(&self, at: Timestamp) {
        *self.snapshots.lock().open.entry(at).or_default() += 1;
    }

    /// Ends a snapshot that was opened.
    pub(crate) fn close_snapshot(&self, at: Timestamp) {
        let mut snapshots = self.snapshots.lock();
        if let Some(readers) = snapshots.open.get_mut(&at) {
            *readers -= 1;
            if *readers == 0 {
                snapshots.open.remove(&at);
            }
        }
    }

    /// The newest commit that a snapshot opened now would see.
    pub fn newest(&self) -> Timestamp {
        self.snapshots.lock().published
    }

    /// No snapshot that is open, or will be, is older.
    pub fn oldest_snapshot(&self) -> Timestamp {
        self.snapshots.lock().watermark()
    }

    /// All commits to come will be after `seen`, which somebody reads. `watermark`: no snapshot anywhere is older.
    pub fn advance(&self, seen: Timestamp, watermark: Timestamp) {
        let mut core = self.core.lock();
        core.last = core.last.max(seen).max(watermark);
        let mut snapshots = self.snapshots.lock();
        snapshots.elsewhere = snapshots.elsewhere.max(Some(watermark));
    }

    /// Lets snapshots see all commits up to this one.
    pub fn publish(&self, last: Timestamp) {
        let mut snapshots = self.snapshots.lock();
        snapshots.published = snapshots.published.max(last);
    }
}
