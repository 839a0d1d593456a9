//! The databases that this process has open. All connections to a directory share it, wherever its storage is; the last to
//! close it drops it. Of a database on a server elsewhere each connection has its own.

use crate::codes::{CANTOPEN, Failure};
use crate::fork::{self, Generation};
use crate::name::{self, Access, Name, Place};
use crate::sequences::Sequences;
use crate::share::Shared;
use crate::turns::Turns;
use fulmar_cluster::{Connection, Remote};
use fulmar_dbt::{Database, Numbers, Options};
use fulmar_locks::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What the connections of this process to one database tell each other.
pub(crate) struct OpenDatabase {
    pub(crate) turns: Turns,
    /// The rowids that transactions have given to new rows, by the address of their handle.
    pub(crate) rowids: Numbers<usize>,
    pub(crate) sequences: Sequences,
    /// Commits so far, for `PRAGMA data_version`.
    pub(crate) commits: AtomicU32,
    /// Under which it can be opened again.
    name: String,
    /// The directory, if it is on this machine.
    shared: Option<Arc<Shared>>,
    /// The process that has opened it.
    generation: Generation,
}

/// Those that are on this machine, by directory.
pub(crate) type Databases = BTreeMap<PathBuf, Weak<OpenDatabase>>;

/// Held while a database opens or closes, so that nobody finds it half closed.
static OPEN: Mutex<Databases> = Mutex::new(BTreeMap::new());

/// Waits until nobody opens or closes a database, and keeps it so.
pub(crate) fn hold() -> MutexGuard<'static, Databases> {
    OPEN.lock()
}

impl OpenDatabase {
    /// The database of that name, opened unless it is open already, for one connection.
    pub(crate) fn open(name: &Name, access: Access) -> Result<(Arc<Self>, Database), Failure> {
        fork::watch()?;
        match &name.place {
            Place::Here(path) => {
                let store = Self::open_here(path, name.cache_bytes, access)?;
                match store.shared.as_ref().map(|shared| shared.user()) {
                    Some(Ok(database)) => Ok((store, database)),
                    Some(Err(failure)) => {
                        store.close();
                        Err(failure)
                    }
                    None => Err(Failure::new(CANTOPEN, format!("{}: not a directory", path.display()))),
                }
            }
            Place::There { servers, database } => Self::open_there(servers, database, access, name.timeout),
        }
    }

    fn open_there(
        servers: &[String],
        database: &str,
        access: Access,
        timeout: Option<Duration>,
    ) -> Result<(Arc<Self>, Database), Failure> {
        let name = format!("fulmar://{}/{database}", servers.join(","));
        let create = access == Access::ReadWriteCreate;
        let connection = Connection::to_any(servers, database, create, timeout)
            .map_err(|why| Failure::new(CANTOPEN, format!("{name}: {why}")))?;
        let store = Remote::new(Path::new(&name), connection);
        let database = Database::remote(Arc::new(store));
        // Whether the database exists is the server's to say.
        database.newest()?;
        Ok((Arc::new(Self::of(name, None)), database))
    }

    fn of(name: String, shared: Option<Arc<Shared>>) -> Self {
        Self {
            turns: Turns::default(),
            rowids: Numbers::default(),
            sequences: Sequences::default(),
            commits: AtomicU32::new(0),
            name,
            shared,
            generation: Generation::current(),
        }
    }

    fn open_here(path: &Path, cache_bytes: Option<u64>, access: Access) -> Result<Arc<Self>, Failure> {
        let path = name::resolve(path)?;
        let mut open = OPEN.lock();
        match open.get(&path).and_then(Weak::upgrade) {
            Some(store) if store.generation.is_past() => std::mem::forget(store),
            Some(store) => return Ok(store),
            None => {}
        }
        let create = access == Access::ReadWriteCreate;
        if !create && !path.exists() {
            return Err(Failure::new(CANTOPEN, format!("{}: no such database", path.display())));
        }
        let mut options = Options { create, ..Options::default() };
        if let Some(bytes) = cache_bytes {
            options.cache_bytes = bytes;
        }
        let shared = Shared::open(&path, options)?;
        let store = Arc::new(Self::of(name::of(&path), Some(shared)));
        open.insert(path, Arc::downgrade(&store));
        Ok(store)
    }

    /// About how many bytes its files take, if they are on this machine: whichever process has opened them, and if it may only be read, too.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.shared.as_ref().map(|shared| fulmar_files::bytes_in(shared.path()))
    }

    /// Why this process may only read it, if that is so.
    pub(crate) fn read_only(&self) -> Option<&str> {
        self.shared.as_ref().and_then(|shared| shared.frozen())
    }

    /// Whether a parent of this process has opened it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation.is_past()
    }

    /// Lets go of the database, which its connection has dropped; the last one to do so closes it. An inherited one stays as
    /// it is.
    pub(crate) fn close(self: Arc<Self>) {
        if self.is_inherited() {
            return std::mem::forget(self);
        }
        let Some(path) = self.shared.as_ref().map(|shared| shared.path().to_owned()) else { return };
        let mut open = OPEN.lock();
        drop(self);
        if open.get(&path).is_some_and(|store| store.strong_count() == 0) {
            open.remove(&path);
        }
    }

    /// The name under which it can be opened again.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
