//! Where servers listen.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address and a TCP port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Text that names no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address: expected IP:PORT or unix:PATH")]
pub struct NoAddress(pub String);

impl FromStr for Address {
    type Err = NoAddress;

    /// `127.0.0.1:7000`, `[::1]:7000` or `unix:/run/fulmar`. Names of hosts are the caller's to resolve.
    fn from_str(text: &str) -> Result<Self, NoAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(NoAddress(text.into())),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| NoAddress(text.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// A bound socket that a server accepts connections from. Binding is the caller's, who knows what to do when it fails.
#[derive(Debug)]
pub struct Listener(pub(crate) OwnedFd);

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self(listener.into())
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self(listener.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["127.0.0.1:7000", "[::1]:7000", "unix:/run/fulmar"] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "unix:", "7000", "localhost:7000", "127.0.0.1:70000"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
