//! Where controllers come in.

use crate::channel::Channel;
use crate::place::Settings;
use crate::target::Target;
use fulmar_files::NamedSocket;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// A socket that listens and does not block.
#[derive(Debug)]
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(NamedSocket, PathBuf),
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
        let socket = NamedSocket::bind(path)?;
        socket.listener().set_nonblocking(true)?;
        Ok(Self::Unix(socket, path.into()))
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
            Self::Unix(socket, path) => socket.listener().accept().and_then(|(stream, _)| {
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
            Self::Unix(socket, _) => socket.as_fd(),
        }
    }
}
