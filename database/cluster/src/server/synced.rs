//! What a server must not forget, and how that is seen to.

use super::Server;
use crate::replicated::Entries;
use fulmar_kv::Database;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A record stands for what was written to an engine, up to a point in it.
#[derive(Clone)]
pub struct Synced(Place, u64);

#[derive(Clone)]
enum Place {
    Shard(Database),
    Replica(Entries),
}

impl Synced {
    pub(super) fn of(database: &Database) -> Self {
        Self(Place::Shard(database.clone()), database.storage().sequence())
    }

    pub(super) fn of_replica(entries: &Entries) -> Self {
        Self(Place::Replica(entries.clone()), entries.sequence())
    }

    /// What messages call what was written to.
    pub fn path(&self) -> &Path {
        match &self.0 {
            Place::Shard(database) => database.path(),
            Place::Replica(entries) => entries.path(),
        }
    }

    /// How much was written to it.
    pub const fn sequence(&self) -> u64 {
        self.1
    }
}

impl fmt::Debug for Synced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} up to {}", self.path().display(), self.1)
    }
}

impl Place {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shard(one), Self::Shard(other)) => one.is_same(other),
            (Self::Replica(one), Self::Replica(other)) => one.is_same(other),
            _ => false,
        }
    }
}

/// Makes a server's records durable.
pub struct SyncLog {
    /// Where the cluster's own records are, on the server that keeps them.
    cluster: Option<PathBuf>,
    /// What was written to since the last sync.
    written: Vec<Place>,
}

impl SyncLog {
    /// The log of this server.
    pub fn of(server: &Server) -> Self {
        Self {
            cluster: server
                .held
                .membership
                .manager
                .as_ref()
                .and_then(|manager| Some(manager.records()?.path().into())),
            written: Vec::new(),
        }
    }
}

impl fulmar_transport::Log<Synced> for SyncLog {
    fn append(&mut self, records: &[Synced]) -> io::Result<()> {
        for Synced(place, _) in records {
            if !self.written.iter().any(|other| other.is_same(place)) {
                self.written.push(place.clone());
            }
        }
        Ok(())
    }

    /// A shard whose disk fails says so to those who ask it to commit, and goes on to be read; a replica promises nothing, and takes no
    /// part any more. Without the cluster's own records nothing can go on.
    fn sync(&mut self) -> io::Result<()> {
        for place in self.written.drain(..) {
            match place {
                Place::Replica(entries) => entries.sync(),
                Place::Shard(database) => {
                    let synced = database.sync();
                    if self.cluster.as_deref() == Some(database.path()) {
                        synced.map_err(io::Error::other)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, SyncLog};
    use crate::replicated::Entries;
    use fulmar_kv::engine::{Batch, Engine, Memory};
    use fulmar_kv::{Error, ObjectId};
    use fulmar_transport::Log;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    /// Takes what is written, and loses it.
    #[derive(Default)]
    struct Unsynced(Memory);

    impl Engine for Unsynced {
        fn write(&self, batch: Batch) -> Result<(), Error> {
            self.0.write(batch)
        }
        fn sync(&self) -> Result<(), Error> {
            Err(Error::io(Path::new("engine"), io::Error::other("the disk is on fire")))
        }
        fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
            self.0.load(object, visit)
        }
        fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
            self.0.next(from)
        }
        fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
            self.0.fact(name)
        }
    }

    /// Chaos, Fast Paxos, seed 27000: a disk became full between a write and its sync.
    #[test]
    fn a_replica_whose_sync_fails_ends_no_server() {
        let (entries, _) =
            Entries::open(Path::new("entries"), Arc::new(Unsynced::default())).expect("memory");
        let mut log = SyncLog { cluster: None, written: vec![Place::Replica(entries.clone())] };
        log.sync().expect("the server goes on");
        let why = entries.why_unsynced().expect("its replica does not");
        assert_eq!(why.to_string(), "engine: the disk is on fire");
        assert!(entries.why_unsynced().is_none());
    }
}
