//! Any of the ports.

use crate::{Counters, Error, Frame, LONGEST_FRAME, Link, Memory, Offload, Packet, Tap, Xdp};
use std::os::fd::{AsFd, BorrowedFd};

/// A place where frames come in and go out. Which it is, is looked up once for each batch of frames that come in, and takes one
/// well-predicted branch for each that goes out.
#[derive(Debug)]
pub enum Port {
    /// On a network interface.
    Packet(Box<Packet>),
    /// On a network interface whose hosts leave nothing to be done.
    Xdp(Box<Xdp>),
    /// A network interface itself.
    Tap(Tap),
    /// Inside the process.
    Memory(Memory),
}

impl Port {
    /// Hands over frames that have come, where they lie, at most so many; answers how many there were. It never waits: whoever wants to
    /// does it by [`poll`](rustix::event::poll) on the port, for input. Frames that cannot be understood are counted here and as
    /// errors, and not handed over.
    ///
    /// # Errors
    ///
    /// If the interface is down or gone. It may be called again; [`Error::Down`] ends when the interface is brought up.
    /// An interface that has no frames is asked now and then only, so that the error does not come at once.
    pub fn receive(&mut self, limit: usize, each: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        match self {
            Self::Packet(port) => port.receive(limit, each),
            Self::Xdp(port) => port.receive(limit, each),
            Self::Tap(port) => port.receive(limit, each),
            Self::Memory(port) => Ok(port.receive(limit, each)),
        }
    }

    /// Sends a frame, at the latest with the next [`flush`](Self::flush). One that cannot be sent is lost, and counted.
    pub fn send(&mut self, frame: &[u8], offload: Offload) {
        match self {
            Self::Packet(port) => port.send(frame, offload),
            Self::Xdp(port) => port.send(frame, offload),
            Self::Tap(port) => port.send(frame, offload),
            Self::Memory(port) => port.send(frame, offload),
        }
    }

    /// Sends all frames that wait.
    pub fn flush(&mut self) {
        match self {
            Self::Packet(port) => port.flush(),
            Self::Xdp(port) => port.flush(),
            Self::Tap(_) => {}
            Self::Memory(port) => port.flush(),
        }
    }

    /// What has gone through.
    pub fn counters(&mut self) -> Counters {
        match self {
            Self::Packet(port) => port.counters(),
            Self::Xdp(port) => port.counters(),
            Self::Tap(port) => port.counters(),
            Self::Memory(port) => port.counters(),
        }
    }

    /// How the interface is now.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub fn link(&self) -> Result<Link, Error> {
        match self {
            Self::Packet(port) => port.link(),
            Self::Xdp(port) => port.link(),
            Self::Tap(port) => port.link(),
            Self::Memory(port) => Ok(port.link()),
        }
    }

    /// Bytes of the longest frame that it takes; but one longer than the interface's MTU must be one that is yet to be cut.
    pub fn max_frame(&self) -> usize {
        match self {
            Self::Xdp(_) => Xdp::LONGEST_FRAME,
            Self::Packet(_) | Self::Tap(_) | Self::Memory(_) => LONGEST_FRAME,
        }
    }
}

impl AsFd for Port {
    /// Readable when frames have come, or when there is an error to be told.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packet(port) => port.as_fd(),
            Self::Xdp(port) => port.as_fd(),
            Self::Tap(port) => port.as_fd(),
            Self::Memory(port) => port.as_fd(),
        }
    }
}

impl From<Packet> for Port {
    fn from(port: Packet) -> Self {
        Self::Packet(Box::new(port))
    }
}

impl From<Xdp> for Port {
    fn from(port: Xdp) -> Self {
        Self::Xdp(Box::new(port))
    }
}

impl From<Tap> for Port {
    fn from(port: Tap) -> Self {
        Self::Tap(port)
    }
}

impl From<Memory> for Port {
    fn from(port: Memory) -> Self {
        Self::Memory(port)
    }
}
