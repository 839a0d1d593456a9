//! Opening a database whose directory this process may not write: on a read-only file system, or another user's.
//!
//! The engine writes where it opens: it locks, cuts its log, merges tables. So it gets a directory of its own, with copies
//! of its small files. Its tables, which never change, are opened here, and named there by links to the open files: the
//! owner of the database may merge and remove them meanwhile. What is read is the database as it was when it was opened.

use crate::Error;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Folders of the engine whose files never change.
const UNCHANGING: [&str; 2] = ["tables", "blobs"];

/// A directory for the engine, gone with this value.
pub(crate) struct Frozen {
    directory: PathBuf,
    /// Open for as long as links name them.
    tables: Vec<File>,
}

impl Frozen {
    /// Of the engine's files in `engine`, which nobody changes during the call.
    pub(crate) fn of(engine: &Path) -> Result<Self, Error> {
        let directory = private_directory().map_err(|e| Error::io(&std::env::temp_dir(), e))?;
        let mut frozen = Self { directory, tables: Vec::new() };
        let copy = frozen.engine();
        frozen.copy(engine, &copy)?;
        Ok(frozen)
    }

    /// Where the engine's files are.
    pub(crate) fn engine(&self) -> PathBuf {
        self.directory.join("engine")
    }

    fn copy(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        let is_unchanging = from.file_name().is_some_and(|name| UNCHANGING.iter().any(|u| name == *u));
        let read = |e| Error::io(from, e);
        fs::create_dir(to).map_err(|e| Error::io(to, e))?;
        for entry in fs::read_dir(from).map_err(read)? {
            let entry = entry.map_err(read)?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type().map_err(read)?.is_dir() {
                self.copy(&from, &to)?;
                continue;
            }
            let file = File::open(&from).map_err(|e| Error::io(&from, e))?;
            let made = if is_unchanging {
                let link = symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), &to);
                self.tables.push(file);
                link
            } else {
                copy_data(file, &to)
            };
            made.map_err(|e| Error::io(&to, e))?;
        }
        Ok(())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Whoever cleans the directory of temporary files finds the rest.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A directory that only this process's user can look into.
fn private_directory() -> io::Result<PathBuf> {
    let (parent, process) = (std::env::temp_dir(), std::process::id());
    for attempt in 0.. {
        let path = parent.join(format!("fulmar-reader-{process}-{attempt}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Copies a file, leaving out the zeros that a log has reserved.
fn copy_data(mut from: File, to: &Path) -> io::Result<()> {
    let mut copy = File::create_new(to)?;
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return copy.set_len(length);
        }
        length += n as u64;
        if buffer[..n].iter().any(|byte| *byte != 0) {
            copy.write_all(&buffer[..n])?;
        } else {
            copy.seek(SeekFrom::Start(length))?;
        }
    }
}
