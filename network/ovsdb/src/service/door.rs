//! Where clients come in.

use super::connection::Socket;
use fulmar_files::NamedSocket;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// A socket that listens and does not block.
pub(super) enum Door {
    Tcp(TcpListener),
    Unix(NamedSocket, PathBuf),
}

impl Door {
    pub(super) fn tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let socket = NamedSocket::bind(path)?;
        socket.listener().set_nonblocking(true)?;
        Ok(Self::Unix(socket, path.into()))
    }

    /// Who is there, if anybody is, and who that is.
    pub(super) fn accept(&self) -> io::Result<Option<(Box<dyn Socket>, String)>> {
        let accepted: io::Result<(Box<dyn Socket>, String)> = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok((Box::new(stream) as Box<dyn Socket>, peer.to_string()))
            }),
            Self::Unix(socket, path) => socket.listener().accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((Box::new(stream) as Box<dyn Socket>, format!("a client of {}", path.display())))
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
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket, _) => socket.as_fd(),
        }
    }
}
