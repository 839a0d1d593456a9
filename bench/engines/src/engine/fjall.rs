use super::{CACHE_BYTES, Change, Engine, Result, Sync};
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// A log-structured merge tree in Rust.
pub(super) struct Fjall {
    entries: Keyspace,
    database: Database,
}

/// A number from the environment, to try settings without a build for each.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

impl Fjall {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let journal_compression =
            if setting("FJALL_JOURNAL_LZ4", 0) == 1 { CompressionType::Lz4 } else { CompressionType::None };
        let worker_threads = usize::try_from(setting("FJALL_WORKERS", 4))?;
        let database = Database::builder(directory)
            .cache_size(CACHE_BYTES as u64)
            .worker_threads(worker_threads)
            .journal_compression(journal_compression)
            .max_journaling_size(setting("FJALL_JOURNAL_MIB", 128) << 20)
            .open()?;
        let entries = database.keyspace("entries", || {
            let block_bytes = u32::try_from(setting("FJALL_BLOCK_KIB", 8) << 10).unwrap_or(8 << 10);
            let data_compression =
                if setting("FJALL_LZ4", 1) == 1 { CompressionType::Lz4 } else { CompressionType::None };
            let separate = (setting("FJALL_BLOBS", 0) == 1).then(Default::default);
            KeyspaceCreateOptions::default()
                .max_memtable_size(setting("FJALL_MEMTABLE_MIB", 16) << 20)
                .data_block_size_policy(BlockSizePolicy::all(block_bytes))
                .data_block_compression_policy(CompressionPolicy::all(data_compression))
                .expect_point_read_hits(true)
                .with_kv_separation(separate)
        })?;
        Ok(Self { entries, database })
    }
}

impl Engine for Fjall {
    fn apply(&self, changes: Vec<Change>, sync: Sync) -> Result<()> {
        let persist = match sync {
            Sync::Now => PersistMode::SyncData,
            Sync::Later => PersistMode::Buffer,
        };
        let mut batch = self.database.batch().durability(Some(persist));
        for change in changes {
            match change {
                Change::Put(key, value) => batch.insert(&self.entries, key, value),
                Change::Remove(key) => batch.remove(&self.entries, key),
            }
        }
        Ok(batch.commit()?)
    }

    fn load(&self, prefix: &[u8], values: &mut Vec<u8>) -> Result<usize> {
        let mut entries = 0;
        for entry in self.entries.prefix(prefix) {
            values.extend_from_slice(&entry.value()?);
            entries += 1;
        }
        Ok(entries)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for entry in self.entries.iter() {
            let (key, value) = entry.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }
}
