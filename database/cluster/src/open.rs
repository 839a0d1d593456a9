//! Where a server finds what it holds.

use crate::DatabaseName;
use fulmar_kv::engine::Engine;
use fulmar_kv::{Database, Error, Options, ShardId};
use fulmar_replication::LeaderTimeout;
use std::path::PathBuf;
use std::sync::Arc;

/// How the shards of a server are opened.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// How the storage of each is.
    pub storage: Options,
    /// How long the leader of a shard's replicas may be silent: see [`LeaderTimeout`].
    pub leader_timeout: LeaderTimeout,
    /// After so many operations replicas make a checkpoint; who has missed more than two of them copies the state.
    pub checkpoint: u64,
    /// A part in which the state is copied holds so many bytes of entries, or one object.
    pub copied_bytes: usize,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            storage: Options::default(),
            leader_timeout: LeaderTimeout::default(),
            checkpoint: 1_000,
            // As much as a leader writes at once, so that what it adds is not more than what is copied meanwhile.
            copied_bytes: 1 << 20,
        }
    }
}

/// Where a server finds its databases.
pub trait Open: Send {
    /// Whether there is a database of this name that was not made by this cluster.
    ///
    /// # Errors
    /// [`Error::Io`]
    fn exists(&mut self, name: &DatabaseName) -> Result<bool, Error>;

    /// Opens a shard of the database of this name, made if it is not there. It is not open yet.
    ///
    /// # Errors
    /// What opening it says.
    fn open(&mut self, name: &DatabaseName, shard: ShardId) -> Result<Database, Error>;

    /// Opens an empty shard, for what comes of it from another server, in place of what an earlier attempt has brought; but in place of
    /// nothing else, such as a database of that name that this server has and the cluster does not know.
    ///
    /// # Errors
    /// What removing and opening it says.
    fn arrive(&mut self, name: &DatabaseName, shard: ShardId) -> Result<Database, Error>;

    /// Removes what there is of a shard that this server has held and handed over; it is not open.
    ///
    /// # Errors
    /// [`Error::Io`]
    fn discard(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(), Error>;

    /// Opens what a replica of a shard is kept in, made if it is not there; with what messages call it.
    ///
    /// # Errors
    /// What opening it says.
    fn engine(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(PathBuf, Arc<dyn Engine>), Error>;

    /// How a shard is opened that is kept in such an engine.
    fn options(&self) -> ShardOptions;

    /// Opens the cluster's own records, as the first server keeps them as long as it does so alone.
    ///
    /// # Errors
    /// What opening them says.
    fn records(&mut self) -> Result<Database, Error>;

    /// Whether its disk takes something, after it has failed; no, also where what is open cannot be opened again.
    fn has_room(&mut self) -> bool {
        false
    }

    /// Keeps in mind where the cluster's servers are.
    ///
    /// # Errors
    /// [`Error::Io`]
    fn remember(&mut self, _servers: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    /// Where they were, as far as that is known.
    ///
    /// # Errors
    /// [`Error::Io`]
    fn remembered(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }
}
