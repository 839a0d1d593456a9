//! Frames that are sent one by one, from where they lie.

use crate::kernel::set_option;
use crate::link::Traffic;
use crate::offload::{self, Offload};
use rustix::io::{Errno, writev};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The packet socket, by which any frame can go.
#[derive(Debug)]
pub(super) struct Single {
    socket: Arc<OwnedFd>,
    queues: Queues,
}

/// Whether frames pass over the interface's queues, which is faster. Then the kernel cuts none: one that the interface cannot cut
/// itself is dropped, and refused as if there were no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    Passed,
    /// From the first such frame on.
    Used,
}

impl Single {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket, queues: Queues::Passed }
    }

    pub(super) fn send(&mut self, frame: &[u8], offload: Offload, sent: &mut Traffic) {
        let header = offload::write(offload);
        let pieces = [IoSlice::new(&header), IoSlice::new(frame)];
        let mut done = writev(&self.socket, &pieces);
        if done.is_err_and(|why| offload.segmentation.is_some() && self.change(why)) {
            done = writev(&self.socket, &pieces);
        }
        match done {
            Ok(_) => sent.count(frame.len()),
            Err(Errno::AGAIN | Errno::NOBUFS) => sent.dropped += 1,
            Err(_) => sent.errors += 1,
        }
    }

    /// Whether a frame to be cut that was refused may do better now.
    fn change(&mut self, why: Errno) -> bool {
        if self.queues == Queues::Used || why != Errno::NOBUFS {
            return false;
        }
        self.queues = Queues::Used;
        set_option(&self.socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &0u32).is_ok()
    }
}
