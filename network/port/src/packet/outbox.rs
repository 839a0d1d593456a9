//! Frames on their way out: short ones in batches, with few system calls; others one by one, after those that wait.

use super::express::Express;
use super::single::Single;
use super::slots::Slots;
use super::socket_for;
use crate::Error;
use crate::interface::Interface;
use crate::kernel::bind_to_interface;
use crate::link::Traffic;
use crate::offload::Offload;
use crate::xdp::Flushed;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Frames that wait to be sent, and the ways for them.
#[derive(Debug)]
pub(super) struct Outbox {
    batch: Batch,
    single: Single,
}

#[derive(Debug)]
enum Batch {
    Express(Express),
    Slots(Slots),
}

impl Outbox {
    /// For an interface, at which there is a packet socket, and an XDP socket for short frames if that can be.
    pub(super) fn new(
        interface: &Interface,
        socket: Arc<OwnedFd>,
        express: Option<Express>,
    ) -> Result<Self, Error> {
        let batch = match express {
            Some(express) => Batch::Express(express),
            None => Batch::Slots(slots(interface)?),
        };
        Ok(Self { batch, single: Single::new(socket) })
    }

    /// Sends a frame, at the latest with the next [`flush`](Self::flush).
    pub(super) fn push(&mut self, frame: &[u8], offload: Offload, sent: &mut Traffic) {
        let Self { batch, single } = self;
        match batch {
            Batch::Express(express) if express.takes(frame, offload) => {
                express.push(frame, offload, single, sent);
            }
            Batch::Slots(slots) if slots.takes(frame, offload) => slots.push(frame, offload, single, sent),
            Batch::Express(_) | Batch::Slots(_) => match self.flush(sent) {
                true => self.single.send(frame, offload, sent),
                // It would be sent before those that wait.
                false => sent.dropped += 1,
            },
        }
    }

    /// Sends what waits. Says whether nothing does any more.
    pub(super) fn flush(&mut self, sent: &mut Traffic) -> bool {
        match &mut self.batch {
            Batch::Express(express) => express.flush(&mut self.single, sent) != Flushed::Some,
            Batch::Slots(slots) => {
                slots.flush(&mut self.single, sent);
                true
            }
        }
    }
}

fn slots(interface: &Interface) -> Result<Slots, Error> {
    let name = interface.name();
    let socket = socket_for(name)?;
    bind_to_interface(&socket, interface.index(), 0).map_err(Error::refused(name, "to send"))?;
    Slots::new(socket).map_err(Error::refused(name, "a ring to send from"))
}
