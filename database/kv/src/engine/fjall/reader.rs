//! The engine's trees before anything is written.
//!
//! fjall starts threads and syncs its log when it opens, and waits for those threads when it closes, which takes longer than
//! all else that a program does which only looks at a few rows. So its trees are opened without it, and the log, which has
//! been read by then, is replayed into them. Nothing is written; what a killed process has left, the trees remove.

use super::log::{ENTRIES, FACTS, LogWrite, ShortLog};
use fjall::{AbstractTree, Error};
use lsm_tree::{AnyTree, Cache, Config, SequenceNumberCounter};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;

/// What fjall writes into `version`.
const VERSION: &[u8] = b"FJL\x03";

/// The trees of both keyspaces.
pub(super) struct Reader {
    pub(super) entries: AnyTree,
    pub(super) facts: AnyTree,
}

impl Reader {
    /// Opens them in `path`, where `log` is the log; `None` if it is for fjall to say what is there.
    pub(super) fn open(path: &Path, cache_bytes: u64, log: &ShortLog) -> Result<Option<Self>, Error> {
        let lock = path.join("lock");
        if !fs::read(path.join("version")).is_ok_and(|version| version == VERSION) || !lock.exists() {
            return Ok(None);
        }
        // Who may not write shall hear so now, not at the first commit.
        for written in log.path.iter().chain([&lock]) {
            OpenOptions::new().write(true).open(written)?;
        }
        let reader = Self::of_tables(path, cache_bytes)?;
        reader.replay(log);
        Ok(Some(reader))
    }

    fn of_tables(path: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        let open = |keyspace: u64| {
            let path = path.join("keyspaces").join(keyspace.to_string());
            let (next, visible) = (SequenceNumberCounter::default(), SequenceNumberCounter::default());
            Config::new(path, next, visible).use_cache(Arc::clone(&cache)).open()
        };
        Ok(Self { entries: open(ENTRIES)?, facts: open(FACTS)? })
    }

    /// Up to which sequence number the tables in `path` have all that was written.
    pub(super) fn in_tables(path: &Path) -> Result<Option<u64>, Error> {
        let Self { entries, facts } = Self::of_tables(path, 0)?;
        Ok(entries.get_highest_persisted_seqno().min(facts.get_highest_persisted_seqno()))
    }

    fn replay(&self, log: &ShortLog) {
        let trees = [(ENTRIES, &self.entries), (FACTS, &self.facts)];
        for (keyspace, tree) in trees {
            let in_tables = tree.get_highest_persisted_seqno();
            for batch in log.batches.iter().filter(|batch| in_tables.is_none_or(|last| last < batch.sequence))
            {
                for LogWrite { key, value, .. } in
                    batch.writes.iter().filter(|write| write.keyspace == keyspace)
                {
                    match value {
                        Some(value) => tree.insert(&**key, &**value, batch.sequence),
                        None => tree.remove(&**key, batch.sequence),
                    };
                }
            }
        }
    }
}
