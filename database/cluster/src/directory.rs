//! Databases for a server: beside each other in a directory, or a single one.

use crate::replicated::open_replica;
use crate::{DatabaseName, Open, ShardOptions};
use fulmar_files::{create_anew, write_whole};
use fulmar_kv::engine::{Engine, Memory, WriteLimit};
use fulmar_kv::{Database, Error, Options, ShardId, Timestamp};
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many shards are open to be written to at a time: each has four threads then.
const WRITTEN_AT_ONCE: usize = 64;

/// Databases in the directories of one directory, each by its name.
pub struct Directory {
    path: PathBuf,
    options: ShardOptions,
}

impl Directory {
    /// The databases in `path`, each opened with these options. They share a limit of how many are open to be written to, also if
    /// the options have none.
    pub fn new(path: PathBuf, mut options: ShardOptions) -> Self {
        options.storage.write_limit.get_or_insert_with(|| WriteLimit::of(WRITTEN_AT_ONCE));
        Self { path, options }
    }

    /// Where a shard is that came after its database, or from another server. No name of a database begins so.
    fn beside(&self, name: &DatabaseName, shard: ShardId) -> PathBuf {
        self.path.join(format!(".{name}.{}", shard.0))
    }

    /// Where the database itself is, if its first shard began here.
    fn founded(&self, name: &DatabaseName) -> PathBuf {
        self.path.join(&**name)
    }

    fn place(&self, name: &DatabaseName, shard: ShardId) -> Result<PathBuf, Error> {
        let beside = self.beside(name, shard);
        Ok(if shard == ShardId(0) && !exists(&beside)? { self.founded(name) } else { beside })
    }

    fn open_at(&self, place: &Path, shard: ShardId) -> Result<Database, Error> {
        let options = Options { create: true, shard, ..self.options.storage.clone() };
        Database::open(place, &options)
    }
}

impl Open for Directory {
    fn exists(&mut self, name: &DatabaseName) -> Result<bool, Error> {
        let path = self.founded(name);
        if OWN.contains(&&**name) {
            return Err(Error::Format { path, found: "a name that servers keep for a file".into() });
        }
        // What else lies there is nobody's database.
        Database::exists(&path)
    }

    fn open(&mut self, name: &DatabaseName, shard: ShardId) -> Result<Database, Error> {
        self.open_at(&self.place(name, shard)?, shard)
    }

    fn arrive(&mut self, name: &DatabaseName, shard: ShardId) -> Result<Database, Error> {
        let place = self.beside(name, shard);
        remove(&place)?;
        self.open_at(&place, shard)
    }

    fn discard(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(), Error> {
        remove(&self.place(name, shard)?)
    }

    fn engine(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(PathBuf, Arc<dyn Engine>), Error> {
        let path = self.path.join(format!(".{name}.{}.replica", shard.0));
        let engine = open_replica(&path, &self.options.storage)?;
        Ok((path, engine))
    }

    fn options(&self) -> ShardOptions {
        self.options.clone()
    }

    fn records(&mut self) -> Result<Database, Error> {
        let options = Options { create: true, cache_bytes: RECORDS_CACHE, ..Options::default() };
        Database::open(&self.path.join(".cluster"), &options)
    }

    fn has_room(&mut self) -> bool {
        let path = self.path.join(".room");
        let written = create_anew(&path, 0o600).and_then(|mut file| {
            file.write_all(&[0; ROOM])?;
            file.sync_all()
        });
        // What is left of it is written over next time.
        let _ = fs::remove_file(&path);
        written.is_ok()
    }

    fn remember(&mut self, servers: &[u8]) -> Result<(), Error> {
        let path = self.path.join(SERVERS);
        write_whole(&path, servers, 0o666).map(drop).map_err(|source| Error::Io { path, source })
    }

    fn remembered(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join(SERVERS);
        match fs::read(&path) {
            Ok(servers) => Ok(Some(servers)),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }
}

/// What a server keeps beside its databases, by names that databases could have.
const OWN: [&str; 2] = ["CLUSTER", "SERVER"];

/// Where the other servers of the cluster are.
const SERVERS: &str = ".servers";

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|source| Error::Io { path: path.into(), source })
}

/// Removes a directory, if it is there.
fn remove(place: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(place) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { path: place.into(), source })
        }
        _ => Ok(()),
    }
}

/// A disk has room again if it takes so many bytes.
const ROOM: usize = 1 << 20;

/// Memory for what is cached of the cluster's own records, bytes.
const RECORDS_CACHE: u64 = 4 << 20;

/// Databases in memory, each by its name. They are gone with this value.
pub struct Transient {
    options: ShardOptions,
    made: BTreeMap<(DatabaseName, ShardId), Database>,
    engines: BTreeMap<(DatabaseName, ShardId), Arc<Memory>>,
}

impl Transient {
    /// None yet; each will be made with these options.
    pub fn new(options: ShardOptions) -> Self {
        Self { options, made: BTreeMap::new(), engines: BTreeMap::new() }
    }
}

impl Open for Transient {
    fn exists(&mut self, name: &DatabaseName) -> Result<bool, Error> {
        Ok(self.made.contains_key(&(name.clone(), ShardId(0))))
    }

    fn open(&mut self, name: &DatabaseName, shard: ShardId) -> Result<Database, Error> {
        Ok(match self.made.entry((name.clone(), shard)) {
            Entry::Occupied(made) => made.get().clone(),
            Entry::Vacant(place) => {
                let options = Options { shard, ..self.options.storage.clone() };
                place.insert(Database::transient(&options)?).clone()
            }
        })
    }

    fn arrive(&mut self, name: &DatabaseName, shard: ShardId) -> Result<Database, Error> {
        self.discard(name, shard)?;
        self.open(name, shard)
    }

    fn discard(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(), Error> {
        self.made.remove(&(name.clone(), shard));
        Ok(())
    }

    fn engine(&mut self, name: &DatabaseName, shard: ShardId) -> Result<(PathBuf, Arc<dyn Engine>), Error> {
        let engine = self.engines.entry((name.clone(), shard)).or_default().clone();
        Ok(((**name).into(), engine))
    }

    fn options(&self) -> ShardOptions {
        self.options.clone()
    }

    fn records(&mut self) -> Result<Database, Error> {
        transient_records()
    }
}

/// One database, open for as long as its server runs, under any name.
pub struct Single(Database);

/// Keeps a snapshot readable for as long as it lives.
pub struct Kept {
    kv: Database,
    at: Timestamp,
}

impl Single {
    /// The database in the directory `path`. The snapshot `oldest`, which was open when it was last closed, and all newer
    /// ones stay readable for as long as what is returned with it lives.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(
        path: &Path,
        options: &Options,
        oldest: Option<Timestamp>,
    ) -> Result<(Self, Option<Kept>), Error> {
        let kv = Database::open(path, options)?;
        let kept = oldest.map(|at| Kept::new(&kv, at));
        Ok((Self(kv), kept))
    }
}

impl Kept {
    fn new(kv: &Database, at: Timestamp) -> Self {
        kv.reopen_snapshot(at);
        Self { kv: kv.clone(), at }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.kv.close_snapshot(self.at);
    }
}

impl Open for Single {
    fn exists(&mut self, _name: &DatabaseName) -> Result<bool, Error> {
        Ok(true)
    }

    fn open(&mut self, _name: &DatabaseName, _shard: ShardId) -> Result<Database, Error> {
        Ok(self.0.clone())
    }

    /// It is one server's alone.
    fn arrive(&mut self, name: &DatabaseName, _shard: ShardId) -> Result<Database, Error> {
        Err(Error::Io { path: (**name).into(), source: io::ErrorKind::Unsupported.into() })
    }

    /// It is one server's alone.
    fn discard(&mut self, _name: &DatabaseName, _shard: ShardId) -> Result<(), Error> {
        Ok(())
    }

    /// It has no replicas.
    fn engine(&mut self, name: &DatabaseName, _shard: ShardId) -> Result<(PathBuf, Arc<dyn Engine>), Error> {
        Err(Error::Io { path: (**name).into(), source: io::ErrorKind::Unsupported.into() })
    }

    fn options(&self) -> ShardOptions {
        ShardOptions::default()
    }

    /// Who shares a database has no cluster that would have to be known again.
    fn records(&mut self) -> Result<Database, Error> {
        transient_records()
    }
}

fn transient_records() -> Result<Database, Error> {
    Database::transient(&Options::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_lies_beside_databases_is_none() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut directory = Directory::new(folder.path().into(), ShardOptions::default());
        let mut exists = |name: &str| directory.exists(&name.try_into().expect("a name"));
        assert!(matches!(exists("birds"), Ok(false)));
        // A first server has no such file, but would look for its name there when it starts.
        for own in OWN {
            assert!(matches!(exists(own), Err(Error::Format { .. })), "{own}");
        }
        fs::write(folder.path().join("notes.txt"), "not a database").expect("there is room");
        assert!(matches!(exists("notes.txt"), Err(Error::Format { .. })));
        fs::create_dir_all(folder.path().join("old/papers")).expect("there is room");
        assert!(matches!(exists("old"), Err(Error::Format { .. })));
    }
}
