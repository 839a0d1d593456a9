//! One connection: a stream socket, what was received on it and what is still to be sent.

use crate::address::Address;
use crate::frame::{FrameReader, FrameTooLong, append_frame, end_of_frame};
use crate::keep_alive::{self, Tail};
use crate::wire::Malformed;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::ioctl;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername, recv,
    send, socket_with, sockopt,
};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A connection that has sent its backlog gives back what a long one took.
const KEPT_OUTPUT: usize = 256 << 10;

/// Why a connection is no more, or never was.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The network or the system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other end closed it.
    #[error("closed by the other end")]
    Ended,
    /// The other end sent a frame that is too long.
    #[error(transparent)]
    Frame(#[from] FrameTooLong),
    /// The other end sent what is no message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The server said no.
    #[error("refused: {0}")]
    Refused(String),
    /// What answered is no Fulmar server.
    #[error("what listens there is no Fulmar server")]
    NotFulmar,
    /// The greeting was not whole in time.
    #[error("no greeting of Fulmar's within {0:?}: something else listens there, or it is very busy")]
    Mute(Duration),
    /// Nothing came for longer than a connection may be idle, or it was idle and another needs its place.
    #[error("idle for {0:?}")]
    Idle(Duration),
    /// The server is known to be elsewhere.
    #[error("it is elsewhere by now")]
    Moved,
    /// The same server has connected anew, or has answered at its address while another said its name.
    #[error("replaced by a newer connection")]
    Replaced,
}

impl From<Errno> for LinkError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

pub(crate) struct Link {
    socket: OwnedFd,
    /// The connection is not established yet; nothing is sent.
    connecting: bool,
    pub(crate) input: FrameReader,
    output: Vec<u8>,
    /// Bytes of `output` that have left, or are in the tail. Less than its length, or both are zero.
    sent: usize,
    /// If another thread may send keep-alives, the frame that is being sent: then `output` begins with another.
    tail: Option<Arc<Tail>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("socket", &self.socket)
            .field("unsent", &self.unsent())
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Starts to connect. Frames may be appended at once; they leave when the connection is there.
    pub(crate) fn dial(address: &Address, dead_after: Duration) -> io::Result<Self> {
        let family = match address {
            Address::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
            Address::Tcp(_) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        let begun = match address {
            Address::Tcp(address) => connect(&socket, address),
            Address::Unix(path) => connect(&socket, &SocketAddrUnix::new(path)?),
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        tune(&socket, family, dead_after)?;
        Ok(Self::new(socket, true))
    }

    /// A connection that a listener accepted.
    pub(crate) fn accepted(socket: OwnedFd, dead_after: Duration) -> io::Result<Self> {
        let family = sockopt::socket_domain(&socket)?;
        tune(&socket, family, dead_after)?;
        Ok(Self::new(socket, false))
    }

    const fn new(socket: OwnedFd, connecting: bool) -> Self {
        Self { socket, connecting, input: FrameReader::empty(), output: Vec::new(), sent: 0, tail: None }
    }

    /// The other end, for people.
    pub(crate) fn other_end(&self) -> String {
        match getpeername(&self.socket) {
            Ok(Some(address)) => match std::net::SocketAddr::try_from(address) {
                Ok(address) => address.to_string(),
                Err(_) => "a Unix socket".into(),
            },
            _ => "an unknown address".into(),
        }
    }

    /// Whether the other end is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        let Ok(Some(address)) = getpeername(&self.socket) else { return false };
        // What has no port is a Unix socket.
        std::net::SocketAddr::try_from(address)
            .map_or(true, |address| address.ip().to_canonical().is_loopback())
    }

    /// Whether the connection is still being made: wait until it can be written to, and call [`Self::established`].
    pub(crate) const fn is_connecting(&self) -> bool {
        self.connecting
    }

    /// The connection is there, or could not be made.
    pub(crate) fn established(&mut self) -> io::Result<()> {
        sockopt::socket_error(&self.socket)??;
        // From here on every call says for itself whether it waits.
        ioctl_fionbio(&self.socket, false)?;
        self.connecting = false;
        Ok(())
    }

    /// Has another thread send keep-alives, from now on if nothing was sent yet.
    pub(crate) fn share(&mut self) -> io::Result<()> {
        self.tail = Some(Arc::new(Tail::of(&self.socket)?));
        Ok(())
    }

    /// Where another thread may send keep-alives.
    pub(crate) fn tail(&self) -> Option<Arc<Tail>> {
        self.tail.clone()
    }

    /// Appends a frame to what is to be sent.
    pub(crate) fn append(
        &mut self,
        limit: usize,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), FrameTooLong> {
        append_frame(&mut self.output, limit, body)
    }

    /// Bytes that have not left.
    pub(crate) fn unsent(&self) -> usize {
        let tail = self.tail.as_ref().map_or(0, |tail| tail.bytes.lock().len());
        self.output.len() - self.sent + tail
    }

    /// Sends what the network takes without waiting; returns how much.
    pub(crate) fn flush(&mut self) -> usize {
        self.push(SendFlags::empty())
    }

    /// Hands what is to be sent to the system, which keeps it until more follows, or for the 0.2 seconds after which it
    /// sends what is corked (`tcp(7)`); a Unix socket sends at once.
    pub(crate) fn flush_later(&mut self) -> usize {
        self.push(SendFlags::MORE)
    }

    fn push(&mut self, more: SendFlags) -> usize {
        let Some(tail) = self.tail.clone() else { return self.push_output(more) };
        let mut bytes = tail.bytes.lock();
        let count = keep_alive::push(&self.socket, &mut bytes, more);
        if !bytes.is_empty() {
            return count;
        }
        let sent = self.send(more);
        let end = end_of_frame(&self.output[self.sent..], sent);
        bytes.extend_from_slice(&self.output[self.sent..][sent..end]);
        self.is_sent(end);
        count + sent
    }

    fn push_output(&mut self, more: SendFlags) -> usize {
        let count = self.send(more);
        self.is_sent(count);
        count
    }

    /// Bytes that have left and that the other end's system has not acknowledged (`SIOCOUTQ`, `tcp(7)`).
    #[expect(unsafe_code, reason = "no library that we use has this call")]
    pub(crate) fn unacknowledged(&self) -> rustix::io::Result<usize> {
        // SAFETY: on a socket this request writes one `int`, and nothing else (`tcp(7)`, `unix(7)`).
        let queued = unsafe {
            ioctl::ioctl(
                &self.socket,
                ioctl::Getter::<{ libc::TIOCOUTQ as ioctl::Opcode }, libc::c_int>::new(),
            )
        }?;
        Ok(usize::try_from(queued).unwrap_or_default())
    }

    /// No error: when the connection is broken, what the other end said last tells why, and that is to be read. What
    /// was to be sent is forgotten.
    fn send(&mut self, more: SendFlags) -> usize {
        if self.connecting {
            return 0;
        }
        let count = send_at_once(&self.socket, &self.output[self.sent..], more);
        count.unwrap_or_else(|| {
            self.forget_output();
            0
        })
    }

    /// So many more bytes of the output have left.
    fn is_sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.output.len() {
            self.forget_output();
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn forget_output(&mut self) {
        self.output.clear();
        self.output.shrink_to(KEPT_OUTPUT);
        self.sent = 0;
    }

    /// Reads once; returns how many bytes came. With `wait`, blocks until some come, a signal does, or the socket's
    /// own time is up.
    pub(crate) fn receive(&mut self, wait: bool) -> Result<usize, LinkError> {
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let room = self.input.room();
        match recv(&self.socket, spare_capacity(room), flags) {
            Ok((_, 0)) => Err(LinkError::Ended),
            Ok((_, count)) => {
                self.input.note_read();
                Ok(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Says one last thing, and that nothing follows. Bytes that came and were not read would make the system cut the
    /// connection before that is read at the other end, so they are taken off first.
    pub(crate) fn part_with(&mut self, body: &[u8]) {
        for _ in 0..16 {
            if !matches!(self.receive(false), Ok(count) if count > 0) {
                break;
            }
            self.input = FrameReader::empty();
        }
        let sent = self.append(body.len(), |output| output.extend_from_slice(body));
        sent.expect("the limit is the length");
        self.flush();
        // That it cannot be shut down means that it is no more.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// For how long [`Self::receive`] waits.
    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, patience)?)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends what the network takes of `bytes` without waiting: how much, or nothing if the connection is broken.
pub(crate) fn send_at_once(socket: &OwnedFd, bytes: &[u8], more: SendFlags) -> Option<usize> {
    if bytes.is_empty() {
        return Some(0);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | more;
    loop {
        match send(socket, bytes, flags) {
            Ok(count) => return Some(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Some(0),
            Err(_) => return None,
        }
    }
}

/// Lets small messages leave at once, and has the system notice a host that is gone.
fn tune(socket: &OwnedFd, family: AddressFamily, dead_after: Duration) -> rustix::io::Result<()> {
    if family == AddressFamily::UNIX {
        return Ok(());
    }
    let second = Duration::from_secs(1);
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, (dead_after / 2).max(second))?;
    sockopt::set_tcp_keepintvl(socket, (dead_after / 8).max(second))?;
    sockopt::set_tcp_keepcnt(socket, 4)?;
    let milliseconds = u32::try_from(dead_after.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(socket, milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// Keep-alives between any two sends, on a connection that takes a little at a time.
    #[test]
    fn keep_alives_leave_frames_whole() {
        let mut random = Random::new(1);
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("two");
        sockopt::set_socket_send_buffer_size(&ours, 4 << 10).expect("a small buffer");
        let (mut link, mut other) = (Link::new(ours, false), Link::new(theirs, false));
        link.share().expect("another descriptor");
        let tail = link.tail().expect("shared");
        let (mut sent, mut received, mut keep_alives) = (Vec::new(), Vec::new(), 0);
        while received.len() < 500 {
            if sent.len() < 500 && random.one_in(3) {
                let longest = if random.one_in(8) { 100_000 } else { 300 };
                let body = vec![random.next().to_le_bytes()[0]; random.index(longest)];
                link.append(1 << 20, |output| output.extend_from_slice(&body)).expect("short");
                sent.push(body);
            }
            if random.one_in(2) {
                let before = link.unsent();
                let count = link.flush();
                assert_eq!(link.unsent() + count, before);
            }
            if random.one_in(4) {
                tail.keep_alive();
            }
            if random.one_in(2) {
                other.receive(false).expect("an open connection");
                while let Some(frame) = other.input.next(1 << 20).expect("a frame") {
                    received.push(other.input.body(frame).to_vec());
                }
                keep_alives += u32::from(other.input.take_keep_alive());
            }
        }
        assert_eq!(received, sent);
        assert!(keep_alives > 50, "{keep_alives}");
    }
}
