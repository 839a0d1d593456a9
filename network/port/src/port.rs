//! Any of the ports, and its two halves.

use crate::interface::Interface;
use crate::{Counters, Error, Frame, LONGEST_FRAME, Link, Offload, Traffic, Trail, memory, packet, tap, xdp};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A place where frames come in and go out: two halves, which different threads may have.
#[derive(Debug)]
pub struct Port {
    receiver: Receiver,
    sender: Sender,
}

/// Where frames come in. Which kind it is, is looked up once for each batch of them.
#[derive(Debug)]
pub enum Receiver {
    /// On a network interface.
    Packet(Box<packet::Receiver>),
    /// On a network interface whose hosts leave nothing to be done.
    Xdp(Box<xdp::Receiver>),
    /// A network interface itself.
    Tap(tap::Receiver),
    /// Inside the process.
    Memory(memory::Receiver),
}

/// Where frames go out. Which kind it is takes one well-predicted branch for each.
#[derive(Debug)]
pub enum Sender {
    /// On a network interface.
    Packet(Box<packet::Sender>),
    /// On a network interface whose hosts leave nothing to be done.
    Xdp(Box<xdp::Sender>),
    /// A network interface itself.
    Tap(tap::Sender),
    /// Inside the process.
    Memory(memory::Sender),
}

/// The link of a port, for who does not have the port: to ask the kernel for it takes its time, while who configures interfaces holds others up.
#[derive(Clone, Debug)]
pub struct LinkWatch(Watched);

#[derive(Clone, Debug)]
enum Watched {
    Interface(Arc<Interface>),
    Memory(memory::Watch),
}

impl LinkWatch {
    /// As [`Receiver::link`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn link(&self) -> Result<Link, Error> {
        match &self.0 {
            Watched::Interface(interface) => interface.link(),
            Watched::Memory(end) => Ok(end.link()),
        }
    }

    /// Has the interface go up, or down; a port in memory stays as it is.
    ///
    /// # Errors
    ///
    /// If it is gone, or this process may not do that.
    pub fn set_up(&self, is_up: bool) -> Result<(), Error> {
        match &self.0 {
            Watched::Interface(interface) => interface.set_up(is_up),
            Watched::Memory(_) => Ok(()),
        }
    }
}

impl Port {
    pub(crate) fn new(receiver: Receiver, sender: Sender) -> Self {
        Self { receiver, sender }
    }

    /// Its halves.
    pub fn split(self) -> (Receiver, Sender) {
        (self.receiver, self.sender)
    }

    /// See [`Receiver::receive`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive(&mut self, limit: usize, each: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        self.receiver.receive(limit, each)
    }

    /// See [`Sender::send`].
    pub fn send(&mut self, frame: &[u8], offload: Offload) {
        self.sender.send(frame, offload);
    }

    /// See [`Sender::flush`].
    pub fn flush(&mut self) -> bool {
        self.sender.flush()
    }

    /// What has gone through.
    pub fn counters(&mut self) -> Counters {
        Counters { received: self.receiver.received(), sent: self.sender.sent() }
    }

    /// See [`Receiver::link`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn link(&self) -> Result<Link, Error> {
        self.receiver.link()
    }

    /// Its link, which can be asked for when others have the port.
    pub fn watch(&self) -> LinkWatch {
        self.receiver.watch()
    }

    /// Bytes of the longest frame that it takes; but one longer than the interface's MTU must be one that is yet to be cut.
    pub fn max_frame(&self) -> usize {
        match self.sender {
            Sender::Xdp(_) => xdp::LONGEST_FRAME,
            Sender::Packet(_) | Sender::Tap(_) | Sender::Memory(_) => LONGEST_FRAME,
        }
    }
}

impl AsFd for Port {
    /// As of [`Receiver`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl Receiver {
    /// Hands over frames that have come, where they lie, at most so many; answers how many there were. It never waits: whoever wants to
    /// does it by [`poll`](rustix::event::poll) on this, for input. Frames that cannot be understood are counted here and as
    /// errors, and not handed over.
    ///
    /// # Errors
    ///
    /// If the interface is down or gone. It may be called again; [`Error::Down`] ends when the interface is brought up.
    /// An interface that has no frames is asked now and then only, so that the error does not come at once.
    pub fn receive(&mut self, limit: usize, each: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        match self {
            Self::Packet(from) => from.receive(limit, each),
            Self::Xdp(from) => from.receive(limit, each),
            Self::Tap(from) => from.receive(limit, each),
            Self::Memory(from) => Ok(from.receive(limit, each)),
        }
    }

    /// What has come in.
    pub fn received(&mut self) -> Traffic {
        match self {
            Self::Packet(from) => from.received(),
            Self::Xdp(from) => from.received(),
            Self::Tap(from) => from.received(),
            Self::Memory(from) => from.received(),
        }
    }

    /// How the interface is now. Inside a process it is up while the other end is there.
    ///
    /// # Errors
    ///
    /// If it is gone, or was moved to another network namespace.
    pub fn link(&self) -> Result<Link, Error> {
        self.watch().link()
    }

    fn watch(&self) -> LinkWatch {
        LinkWatch(match self {
            Self::Packet(from) => Watched::Interface(from.interface().clone()),
            Self::Xdp(from) => Watched::Interface(from.interface().clone()),
            Self::Tap(from) => Watched::Interface(from.interface().clone()),
            Self::Memory(from) => Watched::Memory(from.watch()),
        })
    }
}

impl AsFd for Receiver {
    /// Readable when frames have come, or when there is an error to be told.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packet(from) => from.as_fd(),
            Self::Xdp(from) => from.as_fd(),
            Self::Tap(from) => from.as_fd(),
            Self::Memory(from) => from.as_fd(),
        }
    }
}

impl Sender {
    /// Sends a frame, at the latest with the next [`flush`](Self::flush). One that cannot be sent is lost, and counted.
    pub fn send(&mut self, frame: &[u8], offload: Offload) {
        match self {
            Self::Packet(to) => to.send(frame, offload),
            Self::Xdp(to) => to.send(frame, offload),
            Self::Tap(to) => to.send(frame, offload),
            Self::Memory(to) => {
                to.send(frame, offload, None);
            }
        }
    }

    /// The same of a frame that may have come from another switch of this process. Says whether it goes on: not, if it has been through too many.
    pub fn pass_on(&mut self, frame: &[u8], offload: Offload, trail: Option<&Trail>) -> bool {
        match self {
            Self::Memory(to) => return to.send(frame, offload, trail),
            other => other.send(frame, offload),
        }
        true
    }

    /// Sends all frames that wait. Says whether none does any more: some interfaces keep a few hundred while they are full, which go
    /// with later calls.
    pub fn flush(&mut self) -> bool {
        match self {
            Self::Packet(to) => to.flush(),
            Self::Xdp(to) => to.flush(),
            Self::Tap(_) => true,
            Self::Memory(to) => {
                to.flush();
                true
            }
        }
    }

    /// What has gone out.
    pub fn sent(&self) -> Traffic {
        match self {
            Self::Packet(to) => to.sent(),
            Self::Xdp(to) => to.sent(),
            Self::Tap(to) => to.sent(),
            Self::Memory(to) => to.sent(),
        }
    }
}
