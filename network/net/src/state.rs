//! A network's directory: where its sockets are, and who has its name.

use crate::Error;
use crate::topology::is_name;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where the network of this name has, or would have, its directory.
///
/// # Errors
/// If it cannot be a name.
pub(crate) fn directory(name: &str) -> Result<PathBuf, Error> {
    if !is_name(name) {
        return Err(Error::BadName { name: name.into() });
    }
    let base =
        std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty()).unwrap_or_else(|| "/run".into());
    Ok(Path::new(&base).join(format!("fulmar-net-{name}")))
}

/// Requires that this is a directory in which only this user, or root, can put anything: whoever answers there is obeyed.
pub(crate) fn require_own(directory: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(directory)?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    if found.is_dir() && is_own {
        return Ok(());
    }
    Err(io::Error::other("it is not a directory of this user alone"))
}

/// The sole right to a directory, until this ends and all who have a share in it, in whatever way.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// The right to a directory, which is made if need be. Nothing, if somebody else has it.
    pub(crate) fn take(directory: &Path) -> Result<Option<Self>, Error> {
        let cannot = || Error::cannot(format!("make {}", directory.display()));
        // Others may not put anything in the way, wherever it is.
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(cannot()(why)),
            _ => {}
        }
        require_own(directory).map_err(cannot())?;
        let path = directory.join("lock");
        let file = File::create(&path).map_err(cannot())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(why)) => return Err(cannot()(why)),
        }
        // Who had it before may have removed it in between.
        let is_same =
            fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|had| now.ino() == had.ino()));
        Ok(is_same.then_some(Self(file)))
    }

    /// A share for another process.
    pub(crate) fn share(&self) -> Result<Stdio, Error> {
        self.0.try_clone().map(Stdio::from).map_err(Error::cannot("share a lock"))
    }

    /// Removes what a network has left here that was killed with its guard.
    pub(crate) fn clear(&self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name() != "lock" {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}
