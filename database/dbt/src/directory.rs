//! Databases beside each other in a directory, for a server.

use crate::{Database, Error, Options};
use fulmar_kv::remote::{Keep, Open};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

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
        require_name(name)?;
        let path = self.path.join(name);
        if !create && !path.exists() {
            return Err(missing(name));
        }
        let kv = fulmar_kv::Database::open(&path, &Options { create, ..self.options.clone() })?;
        let database = Database::on(kv.clone())?;
        Ok((kv, Box::new(database)))
    }
}

/// Databases in memory, each by its name. They are gone with this value.
pub struct Transient {
    options: Options,
    made: BTreeMap<String, Database>,
}

impl Transient {
    /// None yet; each will be made with these options.
    pub fn new(options: Options) -> Self {
        Self { options, made: BTreeMap::new() }
    }
}

impl Open for Transient {
    fn open(&mut self, name: &str, create: bool) -> Result<(fulmar_kv::Database, Box<dyn Keep>), Error> {
        require_name(name)?;
        let database = match self.made.get(name) {
            Some(database) => database.clone(),
            None if create => {
                let database = Database::transient(&self.options)?;
                self.made.insert(name.into(), database.clone());
                database
            }
            None => return Err(missing(name)),
        };
        let kv = database.kept.clone().ok_or_else(|| missing(name))?;
        Ok((kv, Box::new(database)))
    }
}

fn missing(name: &str) -> Error {
    Error::Io { path: name.into(), source: io::Error::new(io::ErrorKind::NotFound, "no such database") }
}

fn require_name(name: &str) -> Result<(), Error> {
    if is_name(name) {
        return Ok(());
    }
    let what = "the name of a database has letters, digits, '_', '-' and '.', and does not begin with '.'";
    Err(Error::Io { path: name.into(), source: io::Error::new(io::ErrorKind::InvalidInput, what) })
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(allowed)
}
