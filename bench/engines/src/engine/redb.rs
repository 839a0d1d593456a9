use super::{CACHE_BYTES, Change, Engine, Result, Sync};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

/// A copy-on-write B-tree in Rust, in one file.
pub(super) struct Redb {
    database: Database,
}

impl Redb {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("data.redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.commit()?;
        Ok(Self { database })
    }
}

impl Engine for Redb {
    fn apply(&self, changes: Vec<Change>, sync: Sync) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        // A killed database with quick repair opens without a scan of the whole file.
        transaction.set_quick_repair(std::env::var("REDB_QUICK_REPAIR").is_ok_and(|text| text == "1"));
        if sync == Sync::Later {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut table = transaction.open_table(ENTRIES)?;
            for change in changes {
                match change {
                    Change::Put(key, value) => table.insert(key.as_slice(), value.as_slice())?,
                    Change::Remove(key) => table.remove(key.as_slice())?,
                };
            }
        }
        Ok(transaction.commit()?)
    }

    fn load(&self, prefix: &[u8], values: &mut Vec<u8>) -> Result<usize> {
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        let mut entries = 0;
        for entry in table.range(prefix..)? {
            let (key, value) = entry?;
            if !key.value().starts_with(prefix) {
                break;
            }
            values.extend_from_slice(value.value());
            entries += 1;
        }
        Ok(entries)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let table = self.database.begin_read()?.open_table(ENTRIES)?;
        for entry in table.iter()? {
            let (key, value) = entry?;
            visit(key.value(), value.value());
        }
        Ok(())
    }
}
