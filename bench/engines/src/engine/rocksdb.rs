use super::{CACHE_BYTES, Change, Engine, Result, Sync};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions,
};
use std::path::Path;

/// A log-structured merge tree in C++.
pub(super) struct Rocksdb {
    database: DB,
}

impl Rocksdb {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        table.set_block_size(8 << 10);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_size(16 << 20);
        options.set_compression_type(DBCompressionType::Lz4);
        Ok(Self { database: DB::open(&options, directory)? })
    }
}

impl Engine for Rocksdb {
    fn apply(&self, changes: Vec<Change>, sync: Sync) -> Result<()> {
        let mut batch = WriteBatch::default();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Remove(key) => batch.delete(key),
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(sync == Sync::Now);
        Ok(self.database.write_opt(batch, &options)?)
    }

    fn load(&self, prefix: &[u8], values: &mut Vec<u8>) -> Result<usize> {
        let mut options = ReadOptions::default();
        options.set_iterate_range(rocksdb::PrefixRange(prefix));
        let mut entries = 0;
        for entry in self.database.iterator_opt(IteratorMode::Start, options) {
            values.extend_from_slice(&entry?.1);
            entries += 1;
        }
        Ok(entries)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        for entry in self.database.iterator(IteratorMode::Start) {
            let (key, value) = entry?;
            visit(&key, &value);
        }
        Ok(())
    }
}
