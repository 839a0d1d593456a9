//! Frames on their way out through an XDP socket: each is copied into a chunk, and many go with one system call.

use super::chunks::{CHUNK, Chunks};
use super::ring::Ring;
use super::stock::Stock;
use super::{COMPLETED, OUTGOING, bind_to_first_queue, socket};
use crate::Traffic;
use crate::interface::Interface;
use crate::kernel::{bind_beside, option, set_option};
use libc::SOL_XDP;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    stock: Arc<Mutex<Stock>>,
    /// Which of the sockets it is that have the stock in common.
    number: usize,
    /// Chunks that were taken from the stock for frames to come: many at a time, as others wait for it.
    fresh: Vec<u64>,
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
        let stock = Arc::new(Mutex::new(Stock::new(chunks.clone(), done)));
        Self { socket, chunks, waiting, stock, number: 0, fresh: Vec::new() }
    }

    /// By so many sockets that only send, and leave what comes in to others; or by one, if the kernel has only that.
    ///
    /// # Errors
    ///
    /// If the kernel has no such sockets, or the interface's first queue is another's.
    pub(crate) fn alone(interface: &Interface, count: usize) -> io::Result<Vec<Self>> {
        let count = if keeps_sockets_apart() { count } else { 1 };
        let entries = u32::try_from(count).ok().and_then(u32::checked_next_power_of_two);
        let entries =
            entries.and_then(|count| count.checked_mul(ENTRIES)).ok_or(io::ErrorKind::InvalidInput)?;
        let socket = sending_socket()?;
        let chunks = Chunks::new(socket.as_fd(), entries as usize, 0)?;
        let offsets: libc::xdp_mmap_offsets = option(&socket, SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let at = socket.as_fd();
        let waiting = Ring::new(at, libc::XDP_TX_RING, OUTGOING, offsets.tx, ENTRIES)?;
        let done = Ring::new(at, libc::XDP_UMEM_COMPLETION_RING, COMPLETED, offsets.cr, entries)?;
        // No socket is bound without one of these.
        set_option(at, SOL_XDP, libc::XDP_UMEM_FILL_RING, &1u32)?;
        bind_to_first_queue(at, interface.index())?;
        let mut all = vec![Self::of(Arc::new(socket), chunks, waiting, done)];
        for number in 1..count {
            let next = all[0].beside(number, interface)?;
            all.push(next);
        }
        Ok(all)
    }

    /// By another socket, at the same queue, from the same chunks.
    fn beside(&self, number: usize, interface: &Interface) -> io::Result<Self> {
        let socket = sending_socket()?;
        let offsets: libc::xdp_mmap_offsets = option(&socket, SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let waiting = Ring::new(socket.as_fd(), libc::XDP_TX_RING, OUTGOING, offsets.tx, ENTRIES)?;
        bind_beside(&socket, interface.index(), 0, self.socket.as_fd())?;
        Ok(Self {
            socket: Arc::new(socket),
            chunks: self.chunks.clone(),
            waiting,
            stock: self.stock.clone(),
            number,
            fresh: Vec::new(),
        })
    }

    /// Puts a frame to those that wait, and counts it; or does nothing and says so, if there is no room.
    pub(crate) fn put(&mut self, frame: &[u8], sent: &mut Traffic) -> bool {
        let Some(len) = u32::try_from(frame.len()).ok().filter(|len| *len as usize <= CHUNK) else {
            return false;
        };
        if self.fresh.is_empty() {
            self.restock();
        }
        let Some(address) = (if self.waiting.room() > 0 { self.fresh.pop() } else { None }) else {
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
        self.restock();
        if self.waiting.left() > 0 { Flushed::Some } else { Flushed::All }
    }

    /// Takes what is done back into the stock, and chunks from there for as many frames as one call sends.
    fn restock(&mut self) {
        let mut stock = lock(&self.stock);
        stock.collect();
        let missing = (AT_ONCE as usize).saturating_sub(self.fresh.len());
        self.fresh.extend(std::iter::from_fn(|| stock.take(self.number)).take(missing));
    }

    /// Takes back what waits for an interface that is not up. Of a socket that only sends: nobody else has the kernel look at what waits.
    pub(crate) fn withdraw(&mut self, sent: &mut Traffic, mut each: impl FnMut(&[u8], &mut Traffic)) {
        lock(&self.stock).collect();
        for entry in self.waiting.take_back(VOID) {
            // What was dropped and is not shown as taken, is done: it is no longer a frame that waits.
            if !lock(&self.stock).is_with(self.number, entry.addr) {
                continue;
            }
            sent.packets = sent.packets.saturating_sub(1);
            sent.bytes = sent.bytes.saturating_sub(entry.len.into());
            let (chunk, _) = self.chunks.around(entry.addr);
            each(&chunk[..entry.len as usize], sent);
            lock(&self.stock).give(entry.addr);
        }
    }
}

/// A panic while it was held has left nothing half done in it.
fn lock(stock: &Mutex<Stock>) -> MutexGuard<'_, Stock> {
    stock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From Linux 6.6 on, until 6.17, a chunk was said to be done when that of another socket was.
fn keeps_sockets_apart() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    let version: Option<(u32, u32)> = numbers.next().zip(numbers.next());
    version.is_some_and(|version| !((6, 6)..(6, 17)).contains(&version))
}

fn sending_socket() -> io::Result<OwnedFd> {
    let socket = socket()?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &QUEUE_BYTES)?;
    Ok(socket)
}
