//! Where a member is to be reached, and what it knows.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// A socket, where others reach it, and addresses that were resolved.
pub(crate) struct Place {
    pub(crate) socket: UdpSocket,
    pub(crate) address: SocketAddr,
    pub(crate) known: Vec<SocketAddr>,
}

impl Place {
    /// At `listen`, or at the address of this machine from which the first of those `known` is reached.
    pub(crate) fn new(listen: Option<SocketAddr>, known: Vec<SocketAddr>) -> Result<Self, String> {
        let wanted = match (listen, known.first()) {
            (Some(listen), _) => listen,
            (None, Some(first)) => {
                let ip = way_to(*first).map_err(|error| format!("there is no way to {first}: {error}"))?;
                SocketAddr::new(ip, 0)
            }
            (None, None) => {
                return Err("there is neither an address to listen at nor one that is known".into());
            }
        };
        let socket =
            UdpSocket::bind(wanted).map_err(|error| format!("cannot listen on {wanted} (UDP): {error}"))?;
        let address = socket.local_addr().map_err(|error| format!("cannot listen on {wanted}: {error}"))?;
        Ok(Self { socket, address, known })
    }
}

/// An address to listen at that leads to this machine only.
pub(crate) fn own(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected a name or an IP address of this machine and a port, such as 127.0.0.1:7401";
    let found = text.to_socket_addrs().map_err(|_| expected)?.collect::<Vec<_>>();
    let four = found.iter().find(|address| address.is_ipv4());
    let address = *four.or_else(|| found.first()).ok_or(expected)?;
    if address.ip().is_unspecified() {
        return Err(
            "others need an address that leads here, and this one leads everywhere; expected one of this machine's own"
                .into(),
        );
    }
    Ok(address)
}

/// The address of `HOST:PORT` that is of the same IP as `like`, or else of the older one if there is one.
pub(crate) fn resolve(text: &str, like: Option<SocketAddr>) -> Result<SocketAddr, String> {
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => format!("`{text}` is no address: expected HOST:PORT"),
            _ => format!("`{text}` is not known here: {error}"),
        })?
        .collect();
    let four = found.iter().find(|address| address.is_ipv4());
    let six = found.iter().find(|address| address.is_ipv6());
    let address = match like {
        Some(SocketAddr::V4(_)) => four,
        Some(SocketAddr::V6(_)) => six,
        None => four.or(six),
    };
    let own = like.map_or_else(String::new, |like| format!(" of the IP of {like}"));
    let address = *address.ok_or_else(|| format!("`{text}` has no address{own}"))?;
    if address.port() == 0 {
        return Err(format!("nobody is reached at port 0, as `{text}` has it"));
    }
    Ok(address)
}

/// The address of this machine from which another is reached. Nothing is sent.
fn way_to(other: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr =
        if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(other)?;
    Ok(socket.local_addr()?.ip())
}
