//! A port on a network interface, through an XDP socket: before the kernel makes anything of a frame but a buffer.
//!
//! It is faster than a packet socket where frames are small, and knows no offloads: nothing says what is left to be done to a frame
//! that comes, and to those that go it is done in here. So the hosts on the other side must not leave anything to be done
//! (`ethtool -K eth0 tx off`), nor tags beside their frames (`txvlan off`), and frames have at most 1,514 bytes, or 1,518 with a tag.

mod chunks;
mod program;
mod ring;

use crate::interface::Interface;
use crate::kernel::{bind_to_queue, option};
use crate::offload::finish;
use crate::{Error, Frame, Link, Offload, Port, Traffic, port};
use chunks::{CHUNK, Chunks};
use libc::SOL_XDP;
use program::Program;
use ring::Ring;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Of each of the four rings, and of the chunks for each direction.
const ENTRIES: u32 = 2048;
/// Room before a frame, beside that of the kernel for programs.
const HEADROOM: u32 = 64;
/// So many times no frame is taken for nothing wrong; then the interface is asked.
const ASK_EVERY: u32 = 1024;

/// `XDP_PGOFF_RX_RING` and `XDP_PGOFF_TX_RING`, of the type of the others.
const RECEIVED: u64 = 0;
const OUTGOING: u64 = 0x8000_0000;

/// Bytes of the longest frame: what is left of a chunk after the room before it, with the kernel's 256 bytes.
pub const LONGEST_FRAME: usize = CHUNK - 256 - HEADROOM as usize;

/// Where frames come in.
#[derive(Debug)]
pub struct Receiver {
    // Frames stop to come before the socket is closed.
    _program: Program,
    socket: Arc<OwnedFd>,
    interface: Interface,
    chunks: Chunks,
    filled: Ring<libc::xdp_desc>,
    /// Chunks for frames to be received.
    empty: Ring<u64>,
    received: Traffic,
    found_empty: u32,
    is_down: bool,
}

/// Where frames go out.
#[derive(Debug)]
pub struct Sender {
    socket: Arc<OwnedFd>,
    chunks: Chunks,
    outgoing: Ring<libc::xdp_desc>,
    /// Chunks of frames that were sent.
    done: Ring<u64>,
    /// Chunks for frames to be sent.
    free: Vec<u64>,
    scratch: Vec<u8>,
    sent: Traffic,
}

/// Opens the interface of this name, which has one queue, in the network namespace of the calling thread. All that arrives comes
/// here instead of in the kernel.
///
/// # Errors
///
/// If there is no such interface, it is no Ethernet, it has another program already, or the kernel refuses: for want of
/// `CAP_NET_RAW` and `CAP_BPF`, say.
pub fn open(name: &str) -> Result<Port, Error> {
    let interface = Interface::find(name)?;
    interface.must_be_ethernet()?;
    let refused = |what| Error::refused(name, what);
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(Error::refused(name, "an XDP socket"))?;
    let [incoming, outbound] =
        Chunks::new(socket.as_fd(), ENTRIES as usize, HEADROOM).map_err(refused("memory for frames"))?;
    let offsets: libc::xdp_mmap_offsets =
        option(&socket, SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(refused("to tell where rings are"))?;
    let (at, refuse) = (socket.as_fd(), || refused("a ring"));
    let filled = Ring::new(at, libc::XDP_RX_RING, RECEIVED, offsets.rx, ENTRIES).map_err(refuse())?;
    let outgoing = Ring::new(at, libc::XDP_TX_RING, OUTGOING, offsets.tx, ENTRIES).map_err(refuse())?;
    let (fill, complete) = (libc::XDP_UMEM_PGOFF_FILL_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING);
    let mut empty = Ring::new(at, libc::XDP_UMEM_FILL_RING, fill, offsets.fr, ENTRIES).map_err(refuse())?;
    let done =
        Ring::new(at, libc::XDP_UMEM_COMPLETION_RING, complete, offsets.cr, ENTRIES).map_err(refuse())?;
    incoming.each().for_each(|chunk| empty.put(chunk));
    empty.publish();
    bind_to_queue(&socket, interface.index(), 0).map_err(refused("its queue 0"))?;
    let program = Program::attach(interface.index(), socket.as_fd()).map_err(refused("a program"))?;
    let socket = Arc::new(socket);
    let sender = Sender {
        socket: socket.clone(),
        free: outbound.each().collect(),
        chunks: outbound,
        outgoing,
        done,
        scratch: Vec::new(),
        sent: Traffic::default(),
    };
    let receiver = Receiver {
        _program: program,
        socket,
        interface,
        chunks: incoming,
        filled,
        empty,
        received: Traffic::default(),
        found_empty: 0,
        is_down: false,
    };
    Ok(Port::new(port::Receiver::Xdp(Box::new(receiver)), port::Sender::Xdp(Box::new(sender))))
}

impl Receiver {
    pub(crate) fn receive(&mut self, limit: usize, mut each: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        let mut count = 0;
        while count < limit
            && let Some(at) = self.filled.take()
        {
            let (chunk, start) = self.chunks.around(at.addr);
            let frame = &mut chunk[..start + at.len as usize];
            self.received.count(at.len as usize);
            each(Frame::new(frame, start, Offload::NONE));
            self.empty.put(at.addr - start as u64);
            count += 1;
        }
        if count > 0 {
            self.filled.release();
            self.empty.publish();
        } else {
            self.explain_emptiness()?;
        }
        Ok(count)
    }

    /// Nothing has come. Is that all right? No error tells of an interface that is down.
    fn explain_emptiness(&mut self) -> Result<(), Error> {
        self.found_empty += 1;
        if self.is_down || self.found_empty.is_multiple_of(ASK_EVERY) {
            let state = self.interface.must_be_up();
            self.is_down = state.is_err();
            state?;
        }
        Ok(())
    }

    pub(crate) fn received(&self) -> Traffic {
        let mut received = self.received;
        if let Ok(found) = option::<libc::xdp_statistics>(&self.socket, SOL_XDP, libc::XDP_STATISTICS) {
            received.dropped = found.rx_dropped + found.rx_ring_full;
        }
        received
    }

    pub(crate) fn link(&self) -> Result<Link, Error> {
        self.interface.link()
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sender {
    pub(crate) fn send(&mut self, frame: &[u8], offload: Offload) {
        let mut scratch = std::mem::take(&mut self.scratch);
        if finish(frame, offload, &mut scratch, |frame| self.queue(frame)).is_err() {
            self.sent.errors += 1;
        }
        self.scratch = scratch;
    }

    fn queue(&mut self, frame: &[u8]) {
        if frame.len() > LONGEST_FRAME {
            self.sent.errors += 1;
            return;
        }
        if self.free.is_empty() || self.outgoing.room() == 0 {
            self.flush();
        }
        let Some(address) = (if self.outgoing.room() > 0 { self.free.pop() } else { None }) else {
            self.sent.dropped += 1;
            return;
        };
        let (chunk, _) = self.chunks.around(address);
        chunk[..frame.len()].copy_from_slice(frame);
        let len = u32::try_from(frame.len()).unwrap_or_else(|_| unreachable!("it fits into a chunk"));
        self.outgoing.put(libc::xdp_desc { addr: address, len, options: 0 });
        self.sent.count(frame.len());
    }

    pub(crate) fn flush(&mut self) {
        self.outgoing.publish();
        // Each call sends a few dozen frames. What none takes stays in the ring for the next time.
        while !self.outgoing.is_taken() {
            let room = self.outgoing.room();
            let _ = send(&self.socket, &[], SendFlags::DONTWAIT);
            self.reclaim();
            if self.outgoing.room() == room {
                break;
            }
        }
        self.reclaim();
    }

    fn reclaim(&mut self) {
        while let Some(address) = self.done.take() {
            self.free.push(address);
        }
        self.done.release();
    }

    pub(crate) fn sent(&self) -> Traffic {
        let mut sent = self.sent;
        if let Ok(found) = option::<libc::xdp_statistics>(&self.socket, SOL_XDP, libc::XDP_STATISTICS) {
            sent.errors += found.tx_invalid_descs;
        }
        sent
    }
}
