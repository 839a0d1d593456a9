//! Files whose lock says that somebody is there.

use crate::open_file;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Locks a file, which is made with this mode if there is none: it stays locked for as long as what is returned lives, in this process and
/// those that it starts. Nothing, if another has locked it. Whoever may open the file may lock it, and keep others out.
///
/// # Errors
/// What the system says; also of a link.
pub fn lock_file(path: &Path, mode: u32) -> io::Result<Option<File>> {
    let file = open_file(path, File::options().write(true).create(true).truncate(false).mode(mode))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
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
        drop(held);
        assert!(lock_file(&lock, 0o600).expect("it can be done").is_some());
        std::os::unix::fs::symlink(&elsewhere, &link).expect("it can be done");
        lock_file(&link, 0o600).expect_err("a link");
        assert!(!fs::exists(&elsewhere).expect("it can be done"));
    }
}
