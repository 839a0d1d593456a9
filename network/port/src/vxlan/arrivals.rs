//! What comes out of tunnels, for one switch.

use super::Origin;
use super::datagram::{Lost, decapsulate};
use super::table::Owner;
use super::vtep::{Receiving, Vtep};
use crate::{Error, Frame, Offload};
use fulmar_packet::vxlan;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Room before each frame.
pub(super) const HEADROOM: usize = 128;
/// So many frames of a switch wait that another one has taken from the socket.
const MOST_WAITING: usize = 4096;

/// A frame in its buffer, and what is left to be done to it.
type Waiting = (Origin, Vec<u8>, Offload);

/// Frames of a switch that another one has taken from the socket.
#[derive(Debug)]
pub(super) struct Inbox {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Readable while anything waits.
    signal: OwnedFd,
}

impl Inbox {
    pub(super) fn new() -> Result<Self, Error> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::refused("(tunnels)", "a signal"))?;
        Ok(Self { waiting: Mutex::default(), signal })
    }

    /// A queue is whole between any two of its frames, wherever another thread has panicked.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether there was room.
    fn push(&self, origin: Origin, frame: &[u8], offload: Offload) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.len() < MOST_WAITING;
        if has_room {
            waiting.push_back((origin, [&[0; HEADROOM][..], frame].concat(), offload));
            // It fails only if it would count to 2^64: it is readable then.
            let _ = rustix::io::write(&self.signal, &[0, 0, 0, 0, 0, 0, 0, 1]);
        }
        has_room
    }

    fn pop(&self) -> Option<Waiting> {
        let mut waiting = self.waiting();
        let first = waiting.pop_front()?;
        if waiting.is_empty() {
            // Under the lock, so that it does not take the signal of a frame that has come since.
            let _ = rustix::io::read(&self.signal, &mut [0; 8]);
        }
        Some(first)
    }
}

/// Where the frames of one switch come in from all tunnels of one UDP port.
#[derive(Debug)]
pub struct Arrivals {
    vtep: Arc<Vtep>,
    inbox: Arc<Inbox>,
}

impl Arrivals {
    pub(super) fn new(vtep: Arc<Vtep>, inbox: Arc<Inbox>) -> Self {
        Self { vtep, inbox }
    }

    /// The UDP port.
    pub fn udp_port(&self) -> u16 {
        self.vtep.udp_port()
    }

    /// What can be polled for input: frames have come if one of these is readable.
    pub fn sources(&self) -> [BorrowedFd<'_>; 2] {
        [self.vtep.socket(), self.inbox.signal.as_fd()]
    }

    /// Hands over frames that have come, about so many at most; answers how many there were. It never waits, also not for another
    /// switch that is receiving at this moment: then the frames come with a later call. Frames of other switches are passed on to them.
    pub fn receive(&mut self, limit: usize, mut each: impl FnMut(&Origin, Frame<'_>)) -> usize {
        let mut receiving = match self.vtep.receiving.try_lock() {
            Ok(receiving) => receiving,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        let mut count = 0;
        // These came before whatever is still in the socket, and nobody adds to them meanwhile.
        while count < limit
            && let Some((origin, mut buffer, offload)) = self.inbox.pop()
        {
            count += 1;
            each(&origin, Frame::new(&mut buffer, HEADROOM, offload));
        }
        while count < limit
            && let Some(train) = receiving.read(self.vtep.socket())
        {
            count += self.take(&mut receiving, &train, &mut each);
        }
        count
    }

    /// Hands over or passes on the frames of a train.
    fn take(
        &self,
        receiving: &mut Receiving,
        train: &Train,
        each: &mut impl FnMut(&Origin, Frame<'_>),
    ) -> usize {
        let Receiving { table, buffer, .. } = receiving;
        let (mut at, mut count) = (HEADROOM, 0);
        let end = HEADROOM + train.length;
        // Also of an empty one there is something to say.
        while at < end || at == HEADROOM {
            let next = (at + train.size).min(end);
            let read = decapsulate(train.tos, &mut buffer[at..next]);
            let start = at + vxlan::HEADER;
            at = next.max(at + 1);
            let dropped = &self.vtep.dropped;
            let (network, offload) = match read {
                Ok(read) => read,
                Err(Lost::Malformed) => {
                    dropped.malformed.add();
                    continue;
                }
                Err(Lost::Congested) => {
                    dropped.congested.add();
                    continue;
                }
            };
            let Some(Owner { port, inbox }) = table.find(network, train.remote, train.local) else {
                dropped.unclaimed.add();
                continue;
            };
            let origin = Origin { port: *port, network, remote: train.remote, local: train.local };
            if Arc::ptr_eq(inbox, &self.inbox) {
                count += 1;
                each(&origin, Frame::new(&mut buffer[..next], start, offload));
            } else if !inbox.push(origin, &buffer[start..next], offload) {
                dropped.late.add();
            }
        }
        count
    }
}

/// Datagrams of one size, but for the last, between the same two ends.
#[derive(Debug)]
pub(super) struct Train {
    pub(super) length: usize,
    /// Bytes of each datagram but the last; never 0.
    pub(super) size: usize,
    pub(super) remote: Ipv4Addr,
    pub(super) local: Ipv4Addr,
    pub(super) tos: u8,
}
