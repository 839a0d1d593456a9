//! Streams of bytes that do not block.

use crate::clock::Clock;
use crate::signal::Stop;
use fulmar_node::Time;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A stream to a controller.
pub(crate) trait Channel: Read + Write + AsFd + Send {
    /// Whether it has bytes of its own to send.
    fn wants_write(&self) -> bool {
        false
    }

    /// Tells the other side that nothing more comes.
    fn end(&mut self) {}
}

impl Channel for TcpStream {}
impl Channel for UnixStream {}

/// Calls by TCP.
pub(crate) fn call_tcp(to: SocketAddr, stop: &Stop, clock: Clock, deadline: Time) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let stream = TcpStream::from(call(family, &to, stop, clock, deadline)?);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Calls a socket of this name.
pub(crate) fn call_unix(to: &Path, stop: &Stop, clock: Clock, deadline: Time) -> io::Result<UnixStream> {
    let to = SocketAddrUnix::new(to)?;
    Ok(UnixStream::from(call(AddressFamily::UNIX, &to, stop, clock, deadline)?))
}

fn call(
    family: AddressFamily,
    to: &impl SocketAddrArg,
    stop: &Stop,
    clock: Clock,
    deadline: Time,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, to) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS) => {}
        Err(why) => return Err(why.into()),
    }
    loop {
        let now = clock.now();
        stop.wait(&[PollFd::new(&socket, PollFlags::OUT)], now, Some(deadline))?;
        sockopt::socket_error(&socket)??;
        // Who is at the other end is known when the call has succeeded.
        if rustix::net::getpeername(&socket).is_ok() {
            return Ok(socket);
        }
        if stop.is_set() {
            return Err(io::Error::other("stopped"));
        }
        if clock.now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
