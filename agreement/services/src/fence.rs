//! What a lock protects looks at fencing tokens: a file beside it keeps the largest that has come.

use fulmar_replication::applications::Fence;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Digits of the largest number, and a newline: the file always has this length, so that a larger token is one write.
const LENGTH: usize = 21;

/// A token that is not let through.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// Another has held the lock since.
    #[error("{}: the lock has had a later holder: its token is {seen}, and this one is {token}", path.display(), seen = seen.0, token = token.0)]
    Late {
        /// The file.
        path: PathBuf,
        /// What has come.
        token: Fence,
        /// What was seen before.
        seen: Fence,
    },
    /// The file has something else in it.
    #[error("{0}: not a file of fencing tokens; expected one that is not there yet, or that this wrote")]
    Malformed(PathBuf),
    /// The system says so.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it says.
        why: io::Error,
    },
}

/// A file that keeps the largest fencing token, for a store that has no place of its own for it.
#[derive(Debug)]
pub struct FenceFile {
    path: PathBuf,
    file: File,
}

/// As long as this lives, or a process that has inherited its file, nobody else is let through.
#[derive(Debug)]
pub struct Admitted(File);

impl FenceFile {
    /// The file at `path`, made if there is none. All who write to the store use the same, on one machine.
    ///
    /// # Errors
    /// [`FenceError::Io`]
    pub fn open(path: &Path) -> Result<Self, FenceError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        // Whoever may read it may lock it, and keep all others waiting.
        let file = options.mode(0o660).open(path);
        let file = file.map_err(|why| FenceError::Io { path: path.into(), why })?;
        Ok(Self { path: path.into(), file })
    }

    /// Lets who has this token through, if nobody with a larger one has come before, and keeps it. Waits while another who was let
    /// through is there still: a check alone would say nothing of the moment after it.
    ///
    /// # Errors
    /// [`FenceError`]
    pub fn admit(self, token: Fence) -> Result<Admitted, FenceError> {
        let Self { path, file } = self;
        let failed = |why| FenceError::Io { path: path.clone(), why };
        file.lock().map_err(failed)?;
        let mut bytes = [0; LENGTH];
        let seen = match file.metadata().map_err(failed)?.len() {
            0 => Fence(0),
            _ => match file.read_exact_at(&mut bytes, 0) {
                Ok(()) => read(&bytes).ok_or_else(|| FenceError::Malformed(path.clone()))?,
                Err(why) if why.kind() == ErrorKind::UnexpectedEof => {
                    return Err(FenceError::Malformed(path));
                }
                Err(why) => return Err(failed(why)),
            },
        };
        if token < seen {
            return Err(FenceError::Late { path, token, seen });
        }
        if token > seen {
            file.write_all_at(format!("{:0width$}\n", token.0, width = LENGTH - 1).as_bytes(), 0)
                .and_then(|()| file.sync_data())
                .map_err(failed)?;
        }
        Ok(Admitted(file))
    }
}

impl AsFd for Admitted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn read(bytes: &[u8]) -> Option<Fence> {
    std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.parse().ok().map(Fence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn who_comes_after_a_later_holder_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("fence");
        let admit = |token| FenceFile::open(&path).and_then(|file| file.admit(Fence(token)));
        for token in [3, 3, 5, u64::MAX - 1] {
            drop(admit(token).expect("none larger"));
        }
        let late = admit(5).expect_err("it is late").to_string();
        assert!(late.contains(&format!("its token is {}, and this one is 5", u64::MAX - 1)), "{late}");
        fs::write(&path, "birds\n").expect("it is there");
        assert!(matches!(admit(9), Err(FenceError::Malformed(_))));
    }

    #[test]
    fn the_next_waits_for_who_was_let_through() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("fence");
        let first = FenceFile::open(&path).and_then(|file| file.admit(Fence(1))).expect("none larger");
        let (tell, told) = channel();
        let next = thread::spawn(move || {
            let file = FenceFile::open(&path).expect("it is there");
            tell.send("tries").expect("it is heard");
            drop(file.admit(Fence(2)).expect("none larger"));
            tell.send("is through").expect("it is heard");
        });
        assert_eq!(told.recv(), Ok("tries"));
        assert!(told.try_recv().is_err());
        drop(first);
        assert_eq!(told.recv(), Ok("is through"));
        next.join().expect("no panic");
    }
}
