//! Databases beside each other in a directory, for a server.

use crate::{Database, Error, Options};
use fulmar_kv::remote::{Keep, Open};
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
