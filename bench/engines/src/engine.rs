//! The storage engines behind one small trait: what Fulmar's key-value layer asks of an engine.

use std::error::Error;
use std::path::Path;

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

/// Whatever an engine or the operating system answers.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + std::marker::Sync>>;

/// Bytes of decoded blocks (or pages) that every engine may keep in memory.
pub(crate) const CACHE_BYTES: usize = 64 << 20;

/// The engines in the order in which tables list them, by the names that the command line takes.
pub(crate) const NAMES: &[&str] = &[
    #[cfg(feature = "fjall")]
    "fjall",
    #[cfg(feature = "redb")]
    "redb",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// One change of a batch.
pub(crate) enum Change {
    /// Stores a value under a key.
    Put(Vec<u8>, Vec<u8>),
    /// Removes a key that exists.
    Remove(Vec<u8>),
}

/// When a batch must have reached the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Before `apply` returns.
    Now,
    /// Whenever the engine likes.
    Later,
}

/// An ordered map of byte strings on disk.
pub(crate) trait Engine {
    /// Makes all changes or none of them.
    fn apply(&self, batch: Vec<Change>, sync: Sync) -> Result<()>;

    /// Appends every value under `prefix` to `values`, in key order, and returns how many there were.
    fn load(&self, prefix: &[u8], values: &mut Vec<u8>) -> Result<usize>;

    /// Calls `visit` with every key and value, in key order.
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
}

/// Opens (or creates) the database of the engine called `name` in `directory`.
pub(crate) fn open(name: &str, directory: &Path) -> Result<Box<dyn Engine>> {
    match name {
        #[cfg(feature = "fjall")]
        "fjall" => Ok(Box::new(fjall::Fjall::open(directory)?)),
        #[cfg(feature = "redb")]
        "redb" => Ok(Box::new(redb::Redb::open(directory)?)),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(Box::new(rocksdb::Rocksdb::open(directory)?)),
        _ => Err(format!("no engine {name:?}; this build has {NAMES:?}").into()),
    }
}

/// Whether `file` is the log (or, for redb, the one file) that holds the latest commits of the engine.
pub(crate) fn is_log(name: &str, file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match name {
        "fjall" => extension == Some("jnl"),
        "rocksdb" => extension == Some("log"),
        _ => extension == Some("redb"),
    }
}
