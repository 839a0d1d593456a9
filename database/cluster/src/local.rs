//! Sockets beside the data, over which the processes of one machine share a database.

use fulmar_files::{listen_in, remove_socket};
use fulmar_kv::follow_with_file;
use fulmar_transport::Address;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The cluster of every server of one directory: who reaches its socket has found the right one.
pub const LOCAL_CLUSTER: u128 = 1;
/// A longer name does not fit in the address of a Unix socket.
const LONGEST_NAME: usize = 107;

/// Which socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A server's, which speaks as all servers of storage do.
    Server,
    /// That of a process which has the database to itself, and gives it to a server when somebody knocks.
    Holder,
}

/// The sockets in a database's directory.
pub struct Doors {
    path: PathBuf,
    /// Names what lies in it, if its own name is too long.
    directory: File,
}

impl Doors {
    /// Those of the database in the directory `path`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.into(), directory: File::open(path)? })
    }

    fn name(door: Door) -> &'static str {
        match door {
            Door::Server => "server",
            Door::Holder => "holder",
        }
    }

    fn path(&self, door: Door) -> PathBuf {
        let path = self.path.join(Self::name(door));
        if path.as_os_str().as_bytes().len() <= LONGEST_NAME {
            return path;
        }
        PathBuf::from(format!("/proc/self/fd/{}/{}", self.directory.as_raw_fd(), Self::name(door)))
    }

    /// The address by which this process reaches a door, for as long as `self` lives.
    pub fn address(&self, door: Door) -> Address {
        Address::Unix(self.path(door))
    }

    /// Listens at a door, where nobody else can: the caller holds the database.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(&self, door: Door) -> io::Result<UnixListener> {
        self.remove(door)?;
        listen_in(self.directory.as_fd(), OsStr::new(Self::name(door)), |made| {
            // As to the database's own files: the owner of the directory may connect. If that cannot be, the door is of use to others still,
            // and the system tells whoever may not connect.
            let _ = follow_with_file(&self.path, made);
        })
    }

    /// Takes a door away: the caller holds the database.
    ///
    /// # Errors
    /// What the system says, and [`io::ErrorKind::AlreadyExists`] if what has its name is no socket.
    pub fn remove(&self, door: Door) -> io::Result<()> {
        remove_socket(self.directory.as_fd(), OsStr::new(Self::name(door)))
    }

    /// Knocks at a door.
    ///
    /// # Errors
    /// What the system says: of kind [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] if nobody listens.
    pub fn knock(&self, door: Door) -> io::Result<UnixStream> {
        UnixStream::connect(self.path(door))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_door_stays() {
        let directory = tempfile::tempdir().unwrap();
        let doors = Doors::of(directory.path()).unwrap();
        fs::write(directory.path().join("holder"), "kept").unwrap();
        assert_eq!(doors.listen(Door::Holder).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(directory.path().join("holder")).unwrap(), "kept");
    }

    #[test]
    fn a_long_name_is_no_obstacle_nor_is_what_a_killed_process_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x".repeat(150));
        fs::create_dir(&path).unwrap();
        let doors = Doors::of(&path).unwrap();
        assert_eq!(doors.knock(Door::Server).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(doors.listen(Door::Server).unwrap());
        assert_eq!(doors.knock(Door::Server).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let _listener = doors.listen(Door::Server).unwrap();
        doors.knock(Door::Server).unwrap();
        doors.remove(Door::Server).unwrap();
        doors.remove(Door::Server).unwrap();
        assert!(!path.join("server").exists());
    }
}
