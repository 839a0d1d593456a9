//! A server's directory: which cluster it is of, as which of its servers, and that no other process is there.

use fulmar_cluster::{FIRST, NodeId, new_cluster, new_server};
use fulmar_files::{FileLock, lock_file, write_whole};
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of its cluster.
const CLUSTER: &str = "CLUSTER";
/// Its own name there. Directories of first servers of older versions lack it.
const SERVER: &str = "SERVER";
/// No database is called so, nor as what follows.
const LOCK: &str = ".lock";
/// The records of a first server, those of its replica of them, and where it last knew the servers.
const RECORDS: [&str; 2] = [".cluster", "..cluster.0.replica"];
const SERVERS: &str = ".servers";

/// A directory that is this process's as long as this lives.
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: FileLock,
}

/// Whose directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// Nobody's yet.
    New,
    /// That of a server which has lost what it had, and is to take its own place again.
    Replacement(NodeId),
    /// A server's of this cluster.
    Member(u128, NodeId),
}

impl DataDirectory {
    /// The directory at `path`, made if there is none.
    pub(super) fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let failed = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
        fs::create_dir_all(path).map_err(|why| failed(path, why))?;
        let lock_path = path.join(LOCK);
        // Whoever may read it may hold it, and keep the server from starting.
        match lock_file(&lock_path, 0o660).map_err(|why| failed(&lock_path, why))? {
            Some(lock) => Ok(Self { path: path.into(), _lock: lock }),
            None => {
                let what = "another server runs in this directory: each needs one of its own";
                Err(format!("{}: {what}", path.display()).into())
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn server_file(&self) -> PathBuf {
        self.path.join(SERVER)
    }

    pub(super) fn identity(&self) -> Result<Identity, Box<dyn Error>> {
        let server = match read_number(&self.server_file())? {
            Some(number) => Some(NodeId(u32::try_from(number)?)),
            None => None,
        };
        Ok(match (read_number(&self.path.join(CLUSTER))?, server) {
            (Some(cluster), server) => Identity::Member(cluster, server.unwrap_or(FIRST)),
            (None, server) => {
                if let Some(shard) = self.shard()? {
                    let (data, shard) = (self.path.display(), shard.display());
                    return Err(format!(
                        "{data}: {shard} is there, as in the directory of a server, but not the file {CLUSTER}, which says of what \
                         cluster it is: put that back, or name another directory"
                    )
                    .into());
                }
                server.map_or(Identity::New, Identity::Replacement)
            }
        })
    }

    /// One of what only a member of a cluster makes, beside what it writes down before it is one.
    fn shard(&self) -> io::Result<Option<PathBuf>> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") && entry.file_type()?.is_dir() {
                return Ok(Some(entry.file_name().into()));
            }
        }
        Ok(None)
    }

    /// A name for a new server, kept before anybody hears it.
    pub(super) fn name_server(&self) -> Result<NodeId, Box<dyn Error>> {
        let server = new_server()?;
        self.keep_name(server)?;
        Ok(server)
    }

    /// Writes the server's name again, durably: who wrote it by hand has not synced it.
    pub(super) fn keep_name(&self, server: NodeId) -> Result<(), Box<dyn Error>> {
        write_number(&self.server_file(), server.0.into())
    }

    /// From now on it belongs to this cluster. With that a server is a member: what else it has to know is written before.
    pub(super) fn join(&self, cluster: u128) -> Result<(), Box<dyn Error>> {
        write_number(&self.path.join(CLUSTER), cluster)
    }

    /// Makes this the directory of the first server of a new cluster.
    pub(super) fn found(&self) -> Result<u128, Box<dyn Error>> {
        let cluster = new_cluster()?;
        // In one step: the name of a server alone is that of one which has lost its data.
        self.join(cluster)?;
        Ok(cluster)
    }

    /// Takes back what [`DataDirectory::found`] and a first server without databases have left here.
    pub(super) fn disband(&self) -> io::Result<()> {
        let removed = |result: io::Result<()>| match result {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        };
        for directory in RECORDS {
            removed(fs::remove_dir_all(self.path.join(directory)))?;
        }
        removed(fs::remove_file(self.path.join(SERVERS)))?;
        // Last: without it the rest would be that of a directory that nobody knows.
        fs::remove_file(self.path.join(CLUSTER))
    }
}

fn write_number(path: &Path, number: u128) -> Result<(), Box<dyn Error>> {
    let written = write_whole(path, format!("{number:032x}\n").as_bytes(), 0o666);
    written.map(drop).map_err(|why| format!("{}: {why}", path.display()).into())
}

/// The number in this file, if there is one.
fn read_number(path: &Path) -> Result<Option<u128>, Box<dyn Error>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let number = u128::from_str_radix(text.trim(), 16).map(Some);
            number.map_err(|_| format!("{}: not a name that was given by fulmar", path.display()).into())
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(format!("{}: {why}", path.display()).into()),
    }
}
