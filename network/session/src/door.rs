//! Where controllers come in.

use crate::channel::Channel;
use crate::place::Settings;
use crate::target::Target;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that listens and does not block.
#[derive(Debug)]
pub(crate) enum Door {
    Tcp(TcpListener),
    /// Its name is gone when it is.
    Unix(UnixListener, PathBuf),
}

impl Door {
    /// The door of a passive target.
    pub(crate) fn open(target: &Target) -> io::Result<Self> {
        match target {
            Target::PassiveTcp(at) | Target::PassiveTls(at) | Target::Tcp(at) | Target::Tls(at) => {
                let listener = TcpListener::bind(at)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
            Target::PassiveUnix(path) | Target::Unix(path) => Self::unix(path),
        }
    }

    fn unix(path: &Path) -> io::Result<Self> {
        // A name at which nobody listens was left behind.
        if let Err(why) = UnixStream::connect(path)
            && why.kind() == io::ErrorKind::ConnectionRefused
        {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, path.into()))
    }

    /// The port that the system has chosen, if it is one of TCP.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|at| at.port()),
            Self::Unix(..) => None,
        }
    }

    /// Who is there, if anybody is, and who that is.
    pub(crate) fn accept(&self, settings: &Settings, is_secure: bool) -> io::Result<Option<Visitor>> {
        let accepted: io::Result<Visitor> = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let channel: io::Result<Box<dyn Channel>> = if is_secure {
                    settings.tls().and_then(|files| Ok(Box::new(files.server(stream)?) as _))
                } else {
                    Ok(Box::new(stream))
                };
                Ok((channel, peer.to_string()))
            }),
            Self::Unix(listener, path) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((Ok(Box::new(stream) as _), format!("a client of {}", path.display())))
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

/// Somebody who has come, with whom one can speak if the settings are right; and who that is.
pub(crate) type Visitor = (io::Result<Box<dyn Channel>>, String);

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
