//! Unix sockets that listen under a name.

use crate::chance_u64;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, linkat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that listens in a directory, under a name that is gone when it is.
///
/// A name that is there already is taken over only if it is that of a socket at which nobody listens: what a process that was killed
/// has left. Anything else stays, whatever the rights of this process. The directory is looked up once: whoever moves it, or puts a link in
/// its place, does not move what is done in it.
#[derive(Debug)]
pub struct NamedSocket {
    listener: UnixListener,
    directory: OwnedFd,
    name: PathBuf,
    /// The device and the number of the file that was made.
    file: (u64, u64),
}

impl NamedSocket {
    /// Listens at `path`.
    ///
    /// # Errors
    /// What the system says, with the path; [`io::ErrorKind::AddrInUse`] if somebody listens there, and
    /// [`io::ErrorKind::AlreadyExists`] if something else has the name.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Self::try_bind(path).map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", path.display())))
    }

    fn try_bind(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(rustix::fs::CWD, parent(path), flags, Mode::empty())?;
        if identity(directory.as_fd(), name)?.is_some() {
            match UnixStream::connect(reached(directory.as_fd(), name)) {
                Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there")),
                Err(why) if why.kind() != io::ErrorKind::ConnectionRefused => return Err(why),
                Err(_) => unlinkat(&directory, name, AtFlags::empty())?,
            }
        }
        let listener = listen_in(directory.as_fd(), name, |_| ())?;
        let made = identity(directory.as_fd(), name)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { listener, directory, name: name.into(), file: made })
    }

    /// What listens.
    #[must_use]
    pub const fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// How many may have connected before they are let in; the system allows for fewer.
const WAITING: i32 = 4096;

/// What reaches a name in a directory that is open, however long the directory's own name is.
fn reached(directory: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}

/// Listens in a directory under a name that nothing has. A process may connect if it may write to the socket: its owner may, and of
/// others only who may write in the directory, even if the umask would let everybody.
///
/// Before the socket has its name it listens, and `settle` is called with a path by which it is reached until then: nobody finds it
/// under its name as anything but what it shall be.
///
/// # Errors
/// What the system says.
pub fn listen_in(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    settle: impl FnOnce(&Path),
) -> io::Result<UnixListener> {
    let mode = Mode::from_raw_mode(fstat(directory)?.st_mode);
    // Where everybody may write, but only to what is his own, that is no sign.
    let others = if mode.contains(Mode::SVTX) { Mode::empty() } else { Mode::WGRP | Mode::WOTH };
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Before it is bound, which gives the file the mode of the socket.
    fchmod(&socket, Mode::from_raw_mode(0o755) | mode & others)?;
    let unsettled = format!(".{:016x}", chance_u64()?);
    let path = reached(directory, unsettled.as_ref());
    bind(&socket, &SocketAddrUnix::new(&path)?)?;
    let named = listen(&socket, WAITING).and_then(|()| {
        settle(&path);
        linkat(directory, &unsettled, directory, name, AtFlags::empty())
    });
    let removed = unlinkat(directory, &unsettled, AtFlags::empty());
    named.and(removed)?;
    Ok(socket.into())
}

/// Takes the name of a socket in a directory away; it may be gone already.
///
/// # Errors
/// What the system says, and [`io::ErrorKind::AlreadyExists`] if what has the name is no socket.
pub fn remove_socket(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    if identity(directory, name)?.is_none() {
        return Ok(());
    }
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Which file a name in a directory is of, if there is one; it must be a socket.
fn identity(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<(u64, u64)>> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Socket => {
            Ok(Some((found.st_dev, found.st_ino)))
        }
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket")),
        Err(Errno::NOENT) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

impl AsFd for NamedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for NamedSocket {
    fn drop(&mut self) {
        let name = self.name.as_os_str();
        // Another may have its name by now.
        if matches!(identity(self.directory.as_fd(), name), Ok(Some(found)) if found == self.file) {
            // Nobody can be told.
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use rustix::process::umask;
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_was_left_behind_is_taken_over_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let first = NamedSocket::bind(&at("socket")).unwrap();
        assert_eq!(NamedSocket::bind(&at("socket")).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(at("socket")).unwrap();
        drop(first);
        assert!(!at("socket").exists());
        drop(UnixListener::bind(at("left")).unwrap());
        NamedSocket::bind(&at("left")).unwrap();
        fs::write(at("file"), "kept").unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        // One to a socket that is nobody's: the link is somebody's all the same.
        drop(UnixListener::bind(at("other")).unwrap());
        symlink(at("other"), at("to_other")).unwrap();
        for name in ["file", "folder", "link", "dangling", "to_other"] {
            let told = NamedSocket::bind(&at(name)).unwrap_err();
            assert_eq!(told.kind(), io::ErrorKind::AlreadyExists, "{name}");
            assert!(told.to_string().contains(name), "{told}");
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
    }

    /// (The umask is the whole process's; no other test here looks at a mode.)
    #[test]
    fn who_may_not_write_in_the_directory_may_not_connect() {
        let directory = tempfile::tempdir().unwrap();
        for (number, (mode, expected)) in
            [(0o755, 0o755), (0o775, 0o775), (0o777, 0o777), (0o1777, 0o755)].into_iter().enumerate()
        {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            let path = directory.path().join(number.to_string());
            let opened = File::open(directory.path()).unwrap();
            let before = umask(Mode::empty());
            let listener = listen_in(opened.as_fd(), path.file_name().unwrap(), |_| ());
            umask(before);
            let _listener = listener.unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, expected, "{mode:o}");
            UnixStream::connect(&path).unwrap();
        }
    }

    /// Its owner knocked at a socket that root had bound and not yet given him.
    #[test]
    fn nobody_finds_a_socket_before_it_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, name) = (File::open(folder.path()).unwrap(), OsStr::new("socket"));
        let listener = listen_in(directory.as_fd(), name, |unsettled| {
            assert!(!folder.path().join(name).exists());
            UnixStream::connect(unsettled).unwrap();
            fs::set_permissions(unsettled, fs::Permissions::from_mode(0o700)).unwrap();
        });
        let path = folder.path().join(name);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        UnixStream::connect(&path).unwrap();
        drop(listener);
        let second = listen_in(directory.as_fd(), name, |_| ()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        remove_socket(directory.as_fd(), name).unwrap();
        remove_socket(directory.as_fd(), name).unwrap();
        fs::write(&path, "kept").unwrap();
        assert_eq!(remove_socket(directory.as_fd(), name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists());
    }

    #[test]
    fn a_name_that_another_has_by_now_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let first = NamedSocket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = NamedSocket::bind(&path).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert!(!path.exists());
    }
}
