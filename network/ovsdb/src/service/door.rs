//! Where clients come in.

use super::connection::Socket;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that listens and does not block.
pub(super) enum Door {
    Tcp(TcpListener),
    /// Its name is gone when it is.
    Unix(UnixListener, PathBuf),
}

impl Door {
    pub(super) fn tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let named = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", path.display()));
        // A name at which nobody listens was left behind.
        if let Err(why) = UnixStream::connect(path)
            && why.kind() == io::ErrorKind::ConnectionRefused
        {
            fs::remove_file(path).map_err(named)?;
        }
        let listener = UnixListener::bind(path).map_err(named)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, path.into()))
    }

    /// Who is there, if anybody is, and who that is.
    pub(super) fn accept(&self) -> io::Result<Option<(Box<dyn Socket>, String)>> {
        let accepted: io::Result<(Box<dyn Socket>, String)> = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok((Box::new(stream) as Box<dyn Socket>, peer.to_string()))
            }),
            Self::Unix(listener, path) => listener.accept().and_then(|(stream, _)| {
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
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Nobody can be told.
            let _ = fs::remove_file(path);
        }
    }
}
