//! Who has the directory of a database to itself.
//!
//! Who writes there locks `LOCK`. Only those who may write there can open it: else whoever may read the rows could lock it, and keep
//! their owner out. So who may only read locks nothing. It looks whether somebody has the directory before it copies what is
//! there, and after. That it sees in two ways: whoever has the directory holds a lock on `SYNCED` that excludes nobody, and
//! has written to `LOCK` when it came.
//!
//! *Known as:* a directory lock, lock file.

use crate::Error;
use crate::ownership::{LOCK_FILE, for_writers, own_file};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

/// Takes the directory, by the lock that was passed on if one was.
pub(crate) fn lock(directory: &Path, passed: Option<&File>) -> Result<File, Error> {
    let path = directory.join(LOCK_FILE);
    let file =
        passed.map_or_else(|| own_file(&path, 0o600), File::try_clone).map_err(|e| Error::io(&path, e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held(directory)),
        Err(TryLockError::Error(e)) => return Err(Error::io(&path, e)),
    }
    Ok(file)
}

/// Writes down who has the directory, and since when: after it is [shown](show).
#[expect(
    clippy::disallowed_methods,
    reason = "a time that no other writer has, which is asked only whether it is the same"
)]
pub(crate) fn sign(directory: &Path, file: &File) -> io::Result<()> {
    let mode = for_writers(&fs::metadata(directory)?);
    if file.metadata()?.mode() & 0o777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    let text = format!("process {} ({})\n", std::process::id(), command_line());
    // Over what is there: to free a block of the disk and take another costs more than all else here.
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    // To the nanosecond: the system notes when a file was written to a few milliseconds.
    file.set_modified(SystemTime::now())
}

fn command_line() -> String {
    let words: Vec<_> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Somebody has the directory.
fn held(directory: &Path) -> Error {
    let mut holder = String::new();
    let read = File::open(directory.join(LOCK_FILE)).and_then(|mut lock| lock.read_to_string(&mut holder));
    let holder = match read {
        Ok(_) if !holder.is_empty() => holder.trim_end().into(),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            "only who may write there can see in which".into()
        }
        _ => "unknown".into(),
    };
    Error::Held { path: directory.into(), holder }
}

/// Shows others by `SYNCED` that somebody has the directory.
///
/// The lock is the open file's, not the process's: it stays when another file of that name is closed, and a child has it too.
pub(crate) fn show(synced: &File) {
    // Where the system has no such locks, who only reads is told so by it.
    let _ = fcntl(synced, FcntlArg::F_OFD_SETLK(&whole(libc::F_RDLCK)));
}

/// Shows it no more.
pub(crate) fn hide(synced: &File) {
    // It can only fail if it was not shown.
    let _ = fcntl(synced, FcntlArg::F_OFD_SETLK(&whole(libc::F_UNLCK)));
}

/// A lock on all of a file.
#[expect(clippy::cast_possible_truncation, reason = "the system's numbers for kinds of locks are below four")]
const fn whole(kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// A look at a directory in which nobody may write meanwhile.
pub(crate) struct Look<'p> {
    directory: &'p Path,
    synced: Option<File>,
    signed: Option<SystemTime>,
}

impl<'p> Look<'p> {
    /// Begins one, if nobody has the directory now.
    pub(crate) fn at(directory: &'p Path, synced: &Path) -> Result<Self, Error> {
        let signed = signed(directory);
        // Without the file nobody has ever written there.
        let look = Self { directory, synced: File::open(synced).ok(), signed };
        look.nobody_came()?;
        Ok(look)
    }

    /// What was synced, if anything ever was.
    pub(crate) const fn synced(&self) -> Option<&File> {
        self.synced.as_ref()
    }

    /// What was read since it began is of one moment.
    pub(crate) fn nobody_came(&self) -> Result<(), Error> {
        let mut found = whole(libc::F_WRLCK);
        if let Some(synced) = &self.synced {
            fcntl(synced, FcntlArg::F_OFD_GETLK(&mut found))
                .map_err(|errno| Error::io(self.directory, errno.into()))?;
            if i32::from(found.l_type) != libc::F_UNLCK {
                return Err(held(self.directory));
            }
        }
        if signed(self.directory) != self.signed {
            return Err(held(self.directory));
        }
        Ok(())
    }
}

/// When somebody has last come to write.
fn signed(directory: &Path) -> Option<SystemTime> {
    fs::metadata(directory.join(LOCK_FILE)).and_then(|lock| lock.modified()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use crate::directory::DatabaseDirectory;
    use rustix::fs::{FlockOperation, flock};

    fn database() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let entered = DatabaseDirectory::enter(directory.path(), true, None).unwrap();
        fs::create_dir(entered.engine()).unwrap();
        entered.finish().unwrap();
        directory
    }

    /// It is opened as who may only read opens it, and with the strongest lock that does.
    #[test]
    fn who_may_only_read_keeps_nobody_out() {
        let directory = database();
        let path = directory.path();
        assert_eq!(fs::metadata(path.join(LOCK_FILE)).unwrap().mode() & 0o777, 0o600);
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if entry.metadata().unwrap().mode() & 0o004 != 0 {
                let file = File::open(entry.path()).unwrap();
                flock(&file, FlockOperation::LockExclusive).unwrap();
                show(&file);
                DatabaseDirectory::enter(path, false, None).unwrap();
            }
        }
    }

    #[test]
    fn a_look_sees_who_is_there_and_who_was_there_meanwhile() {
        let directory = database();
        let path = directory.path();
        let look = || Look::at(path, &path.join("SYNCED"));
        let (before, other) = (look().unwrap(), look().unwrap());
        before.nobody_came().unwrap();
        let entered = DatabaseDirectory::enter(path, false, None).unwrap();
        assert!(matches!(look(), Err(Error::Held { .. })));
        assert!(matches!(before.nobody_came(), Err(Error::Held { .. })));
        // A process that another thread has started has the file still, for a moment.
        let _inherited = entered.lock().try_clone().unwrap();
        drop(entered);
        look().unwrap();
        assert!(matches!(other.nobody_came(), Err(Error::Held { .. })), "somebody was there");
    }
}
