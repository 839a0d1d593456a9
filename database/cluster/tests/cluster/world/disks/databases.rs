//! The databases of a server, on a simulated disk.

use super::{Disks, REPLICA, Recorded};
use crate::world::{Defect, named};
use fulmar_cluster::{DatabaseName, Open, ShardOptions};
use fulmar_dbt::Options;
use fulmar_kv::engine::Engine;
use fulmar_kv::{Error, ShardId};
use fulmar_node::NodeId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The databases of a server.
pub(in super::super) struct Databases(
    pub(in super::super) NodeId,
    pub(in super::super) Disks,
    pub(in super::super) Defect,
);

impl Databases {
    fn name(&self, name: &str, shard: ShardId) -> PathBuf {
        format!("{}/{name}.{}", self.0, shard.0).into()
    }

    /// An engine on a disk that may be full. As with the real one, what is found in it is counted on from now on.
    fn recorded(&self, path: &Path) -> Result<Recorded, Error> {
        let engine = self.1.open(path).engine(self.2);
        engine.sync()?;
        Ok(Recorded { is_full: self.1.full(self.0), ..engine })
    }
}

impl Open for Databases {
    fn exists(&mut self, _name: &DatabaseName) -> Result<bool, Error> {
        Ok(false)
    }

    fn open(&mut self, name: &DatabaseName, shard: ShardId) -> Result<fulmar_kv::Database, Error> {
        let options = Options { shard, ..self.options().storage };
        let path = self.name(name, shard);
        fulmar_kv::Database::with_engine(&path, Box::new(self.recorded(&path)?), &options)
    }

    fn arrive(&mut self, name: &DatabaseName, shard: ShardId) -> Result<fulmar_kv::Database, Error> {
        self.discard(name, shard)?;
        self.open(name, shard)
    }

    fn discard(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(), Error> {
        self.1.remove(&self.name(name, shard));
        Ok(())
    }

    fn engine(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(PathBuf, Arc<dyn Engine>), Error> {
        let name = self.name(&format!("{REPLICA}{name}"), shard);
        let engine = self.recorded(&name)?;
        Ok((name, Arc::new(engine)))
    }

    fn options(&self) -> ShardOptions {
        let storage = Options { cache_bytes: 1 << 20, ..Options::default() };
        let options = ShardOptions { storage, ..ShardOptions::default() };
        if self.1.1.lock().is_hurried {
            return ShardOptions { checkpoint: 8, copied_bytes: 2_000, ..options };
        }
        options
    }

    /// Mostly its disk is never full: without these little goes on.
    fn records(&mut self) -> Result<fulmar_kv::Database, Error> {
        let path = self.name(&named("cluster"), ShardId(0));
        let mut engine = self.1.open(&path).engine(self.2);
        if self.1.1.lock().fills_records {
            engine.is_full = self.1.full(self.0);
        }
        fulmar_kv::Database::with_engine(&path, Box::new(engine), &self.options().storage)
    }

    fn has_room(&mut self) -> bool {
        !self.1.full(self.0).load(Relaxed)
    }

    fn remember(&mut self, servers: &[u8]) -> Result<(), Error> {
        self.1.1.lock().servers.insert(self.0, servers.into());
        Ok(())
    }

    fn remembered(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.1.1.lock().servers.get(&self.0).cloned())
    }
}
