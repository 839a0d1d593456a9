//! Where clients come in, by TCP or by a socket with a name.

use crate::NamedSocket;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A socket that listens and does not block.
#[derive(Debug)]
pub struct Door(Listener);

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(NamedSocket, PathBuf),
}

/// A connection that somebody has begun, which does not block either.
#[derive(Debug)]
pub enum Visit {
    /// By TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// By a socket with a name.
    Unix(UnixStream),
}

impl Door {
    /// One by which clients come by TCP.
    ///
    /// # Errors
    /// If the listener cannot be made to not block.
    pub fn tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self(Listener::Tcp(listener)))
    }

    /// One in the file system.
    ///
    /// # Errors
    /// As [`NamedSocket::bind`].
    pub fn unix(path: &Path) -> io::Result<Self> {
        let socket = NamedSocket::bind(path)?;
        socket.listener().set_nonblocking(true)?;
        Ok(Self(Listener::Unix(socket, path.into())))
    }

    /// The port, if it is one of TCP: the system may have chosen it.
    pub fn port(&self) -> Option<u16> {
        match &self.0 {
            Listener::Tcp(listener) => listener.local_addr().ok().map(|at| at.port()),
            Listener::Unix(..) => None,
        }
    }

    /// Who is there, if anybody is, and who that is.
    ///
    /// # Errors
    /// If the system cannot let anybody in now: it is out of descriptors, say.
    pub fn accept(&self) -> io::Result<Option<(Visit, String)>> {
        let accepted = match &self.0 {
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok((Visit::Tcp(stream), peer.to_string()))
            }),
            Listener::Unix(socket, path) => socket.listener().accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((Visit::Unix(stream), format!("a client of {}", path.display())))
            }),
        };
        match accepted {
            Ok(visitor) => Ok(Some(visitor)),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // Who has left before the door was opened is nobody's concern.
            Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(why) => Err(why),
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(socket, _) => socket.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// The first who comes.
    fn admit(door: &Door) -> (Visit, String) {
        loop {
            if let Some(visitor) = door.accept().expect("there is room") {
                return visitor;
            }
        }
    }

    #[test]
    fn who_comes_by_tcp_is_named_by_the_address() {
        let door = TcpListener::bind("127.0.0.1:0").and_then(Door::tcp).expect("there is a port");
        assert!(door.accept().expect("there is room").is_none());
        let guest = TcpStream::connect(("127.0.0.1", door.port().expect("it is TCP"))).expect("it listens");
        let (Visit::Tcp(mut visit), who) = admit(&door) else { panic!("it is TCP") };
        assert_eq!(who, guest.local_addr().expect("it is connected").to_string());
        assert_eq!(visit.read(&mut [0]).expect_err("nothing has come").kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn who_comes_by_a_name_is_named_by_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("door");
        let door = Door::unix(&path).expect("there is room");
        assert_eq!(door.port(), None);
        let _guest = UnixStream::connect(&path).expect("it listens");
        let (Visit::Unix(_), who) = admit(&door) else { panic!("it has a name") };
        assert_eq!(who, format!("a client of {}", path.display()));
    }
}
