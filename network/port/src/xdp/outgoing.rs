//! Frames on their way out through an XDP socket: each is copied into a chunk, and many go with one system call.
//!
//! Whose a chunk is, is told by the ring of those that are done: there the kernel puts the chunk of a frame that nobody needs any more, and at
//! once that of a frame which the interface drops.

use super::chunks::{CHUNK, Chunks};
use super::ring::Ring;
use super::{COMPLETED, OUTGOING, bind_to_first_queue, socket};
use crate::Traffic;
use crate::interface::Interface;
use crate::kernel::{option, set_option};
use libc::SOL_XDP;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// Of a socket that only sends: chunks, and entries in each ring.
const ENTRIES: u32 = 512;
/// So many entries are shown to the kernel at a time, as one call takes: most kernels show how far they are only when they have found no more.
const AT_ONCE: u32 = 32;
/// What the kernel keeps for frames on their way, with its own notes.
const QUEUE_BYTES: u32 = 32 << 20;
/// An entry for which the kernel sends nothing, as it is of no chunk.
const VOID: libc::xdp_desc = libc::xdp_desc { addr: u64::MAX, len: 1, options: 0 };

/// What became of frames that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// None waits any more.
    All,
    /// The interface has no room for some of them now.
    Some,
    /// The interface is down or gone.
    NoLink,
}

/// Frames that wait to be sent, and the chunks for them.
#[derive(Debug)]
pub(crate) struct Outgoing {
    socket: Arc<OwnedFd>,
    chunks: Chunks,
    waiting: Ring<libc::xdp_desc>,
    /// Chunks of frames that were sent.
    done: Ring<u64>,
    /// Chunks for frames to be sent; the last is the one most likely in the processor's cache.
    free: Vec<u64>,
    /// Of each chunk, whether it is among them: what was withdrawn may be done after all.
    is_free: Vec<bool>,
}

impl Outgoing {
    /// Bytes of the longest frame.
    pub(crate) const LONGEST_FRAME: usize = CHUNK;

    /// What a socket sends, from these chunks.
    pub(super) fn of(
        socket: Arc<OwnedFd>,
        chunks: Chunks,
        waiting: Ring<libc::xdp_desc>,
        done: Ring<u64>,
    ) -> Self {
        let (free, is_free) = chunks.each().map(|chunk| (chunk, true)).unzip();
        Self { socket, chunks, waiting, done, free, is_free }
    }

    /// By a socket that only sends, and leaves what comes in to others.
    ///
    /// # Errors
    ///
    /// If the kernel has no such sockets, or the interface's first queue is another's.
    pub(crate) fn alone(interface: &Interface) -> io::Result<Self> {
        let socket = socket()?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &QUEUE_BYTES)?;
        let chunks = Chunks::new(socket.as_fd(), ENTRIES as usize, 0)?;
        let offsets: libc::xdp_mmap_offsets = option(&socket, SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let at = socket.as_fd();
        let waiting = Ring::new(at, libc::XDP_TX_RING, OUTGOING, offsets.tx, ENTRIES)?;
        let done = Ring::new(at, libc::XDP_UMEM_COMPLETION_RING, COMPLETED, offsets.cr, ENTRIES)?;
        // No socket is bound without one of these.
        set_option(at, SOL_XDP, libc::XDP_UMEM_FILL_RING, &1u32)?;
        bind_to_first_queue(at, interface.index())?;
        Ok(Self::of(Arc::new(socket), chunks, waiting, done))
    }

    /// Puts a frame to those that wait, and counts it; or does nothing and says so, if there is no room.
    pub(crate) fn put(&mut self, frame: &[u8], sent: &mut Traffic) -> bool {
        let Some(len) = u32::try_from(frame.len()).ok().filter(|len| *len as usize <= CHUNK) else {
            return false;
        };
        let Some(address) = (if self.waiting.room() > 0 { self.take_chunk() } else { None }) else {
            return false;
        };
        let (chunk, _) = self.chunks.around(address);
        chunk[..frame.len()].copy_from_slice(frame);
        self.waiting.put(libc::xdp_desc { addr: address, len, options: 0 });
        sent.count(frame.len());
        true
    }

    /// Sends what waits. What the interface has no room for goes on to do so.
    pub(crate) fn flush(&mut self, sent: &mut Traffic) -> Flushed {
        // A call may take one entry alone, and show only with the next one that it did.
        for _ in 0..2 * self.waiting.left() {
            let left = self.waiting.left();
            if left == 0 {
                break;
            }
            self.waiting.publish_some(AT_ONCE);
            let done = send(&self.socket, &[], SendFlags::DONTWAIT);
            self.reclaim();
            match done {
                // It ended with a frame that the interface dropped. Not every kernel shows which one: its bytes stay counted.
                Err(Errno::BUSY) => {
                    sent.packets = sent.packets.saturating_sub(1);
                    sent.dropped += 1;
                }
                Err(Errno::NETDOWN | Errno::NXIO) => return Flushed::NoLink,
                Err(_) if self.waiting.left() == left => break,
                _ => {}
            }
        }
        self.reclaim();
        if self.waiting.left() > 0 { Flushed::Some } else { Flushed::All }
    }

    fn reclaim(&mut self) {
        while let Some(address) = self.done.take() {
            self.give_chunk(address);
        }
        self.done.release();
    }

    fn take_chunk(&mut self) -> Option<u64> {
        let address = self.free.pop()?;
        self.is_free[self.chunks.place(address)?] = false;
        Some(address)
    }

    /// Nothing, if it is free, or none at all: some kernels say that of a [`VOID`] entry, too, that it is done.
    fn give_chunk(&mut self, address: u64) {
        if let Some(place) = self.chunks.place(address)
            && !std::mem::replace(&mut self.is_free[place], true)
        {
            self.free.push(address);
        }
    }

    /// Takes back what waits for an interface that is not up. Of a socket that only sends: nobody else has the kernel look at what waits.
    pub(crate) fn withdraw(&mut self, sent: &mut Traffic, mut each: impl FnMut(&[u8], &mut Traffic)) {
        for entry in self.waiting.take_back(VOID) {
            // What was dropped and is not shown as taken, is done: it is no longer a frame that waits.
            if self.chunks.place(entry.addr).is_none_or(|place| self.is_free[place]) {
                continue;
            }
            sent.packets = sent.packets.saturating_sub(1);
            sent.bytes = sent.bytes.saturating_sub(entry.len.into());
            let (chunk, _) = self.chunks.around(entry.addr);
            each(&chunk[..entry.len as usize], sent);
            self.give_chunk(entry.addr);
        }
    }
}
