//! Files whose lock says that somebody is there.

use crate::open_file;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A file that is locked until this is dropped, or the process has ended and all that it has forked.
#[derive(Debug)]
pub struct FileLock(File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // A child has the file open too until it has become its own program, so to close it here is not enough. If this fails, that unlocks it.
        let _ = self.0.unlock();
    }
}

/// Locks a file, which is made with this mode if there is none. Nothing, if another has locked it. Whoever may open the file may lock it, and
/// keep others out.
///
/// # Errors
/// What the system says; also of a link.
pub fn lock_file(path: &Path, mode: u32) -> io::Result<Option<FileLock>> {
    let file = open_file(path, File::options().write(true).create(true).truncate(false).mode(mode))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FileLock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_locked_once_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a directory");
        let (lock, link, elsewhere) =
            (folder.path().join("LOCK"), folder.path().join("link"), folder.path().join("elsewhere"));
        let held = lock_file(&lock, 0o600).expect("it can be done").expect("nobody is there");
        assert!(lock_file(&lock, 0o600).expect("it can be done").is_none());
        let in_a_child = held.0.try_clone().expect("it is open");
        drop(held);
        assert!(lock_file(&lock, 0o600).expect("it can be done").is_some());
        drop(in_a_child);
        std::os::unix::fs::symlink(&elsewhere, &link).expect("it can be done");
        lock_file(&link, 0o600).expect_err("a link");
        assert!(!fs::exists(&elsewhere).expect("it can be done"));
    }
}
