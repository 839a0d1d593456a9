//! Databases for a server: beside each other in a directory, or a single one.

use crate::{Database, Error, Options, Timestamp};
use fulmar_kv::remote::{Keep, Open};
use std::io;
use std::path::{Path, PathBuf};

/// Databases in the directories of one directory, each by its name.
pub struct Directory {
    path: PathBuf,
    options: Options,
}

impl Directory {
    /// The databases in `path`, each opened with these options.
    pub fn new(path: PathBuf, options: Options) -> Self {
        Self { path, options }
    }
}

impl Open for Directory {
    fn open(&mut self, name: &str, create: bool) -> Result<(fulmar_kv::Database, Box<dyn Keep>), Error> {
        let io = |kind, what| Error::Io { path: name.into(), source: io::Error::new(kind, what) };
        if !is_name(name) {
            let what =
                "the name of a database has letters, digits, '_', '-' and '.', and does not begin with '.'";
            return Err(io(io::ErrorKind::InvalidInput, what));
        }
        let path = self.path.join(name);
        if !create && !path.exists() {
            return Err(io(io::ErrorKind::NotFound, "no such database"));
        }
        let kv = fulmar_kv::Database::open(&path, &Options { create, ..self.options.clone() })?;
        let database = Database::on(kv.clone())?;
        Ok((kv, Box::new(database)))
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(allowed)
}

/// One database, open for as long as its server runs, under any name.
pub struct Single {
    kv: fulmar_kv::Database,
    database: Database,
}

/// Keeps a snapshot readable for as long as it lives.
pub struct Kept {
    kv: fulmar_kv::Database,
    at: Timestamp,
}

impl Single {
    /// The database in the directory `path`. The snapshot `oldest`, which was open when it was last closed, and all newer
    /// ones stay readable for as long as what is returned with it lives.
    ///
    /// # Errors
    /// As [`fulmar_kv::Database::open`].
    pub fn open(
        path: &Path,
        options: &Options,
        oldest: Option<Timestamp>,
    ) -> Result<(Self, Option<Kept>), Error> {
        let kv = fulmar_kv::Database::open(path, options)?;
        let kept = oldest.map(|at| Kept::new(&kv, at));
        let database = Database::on(kv.clone())?;
        Ok((Self { kv, database }, kept))
    }
}

impl Kept {
    fn new(kv: &fulmar_kv::Database, at: Timestamp) -> Self {
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
    fn open(&mut self, _name: &str, _create: bool) -> Result<(fulmar_kv::Database, Box<dyn Keep>), Error> {
        Ok((self.kv.clone(), Box::new(self.database.clone())))
    }
}
