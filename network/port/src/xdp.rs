//! A port on a network interface, through an XDP socket: before the kernel makes anything of a frame but a buffer.
//!
//! It is faster than a packet socket where frames are small, and knows no offloads: nothing says what is left to be done to a frame
//! that comes, and to those that go it is done in here. So the hosts on the other side must not leave anything to be done
//! (`ethtool -K eth0 tx off`), nor tags beside their frames (`txvlan off`), and frames have at most 1,514 bytes, or 1,518 with a tag.

mod chunks;
mod outgoing;
mod program;
mod ring;
mod stock;

use crate::interface::Interface;
use crate::kernel::{bind_to_queue, option};
use crate::offload::finish;
use crate::{Error, Frame, Offload, Port, Traffic, port};
use chunks::{CHUNK, Chunks};
use libc::SOL_XDP;
pub(crate) use outgoing::{Flushed, Outgoing};
use program::Program;
use ring::Ring;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Of each of the four rings, and of the chunks for each direction.
const ENTRIES: u32 = 2048;
/// Room before a frame, beside that of the kernel for programs.
const HEADROOM: u32 = 64;
/// So many times no frame is taken for nothing wrong; then the interface is asked.
const ASK_EVERY: u32 = 1024;

/// So long a queue is waited for, and so many times. A quarter of a second in all.
const WHILE: Duration = Duration::from_millis(10);
const TIMES: u32 = 25;

/// Where the rings are, all of one type: `XDP_PGOFF_RX_RING`, `XDP_PGOFF_TX_RING`…
const RECEIVED: u64 = 0;
const OUTGOING: u64 = 0x8000_0000;
/// …`XDP_UMEM_PGOFF_FILL_RING` and `XDP_UMEM_PGOFF_COMPLETION_RING`.
const EMPTY: u64 = libc::XDP_UMEM_PGOFF_FILL_RING;
const COMPLETED: u64 = libc::XDP_UMEM_PGOFF_COMPLETION_RING;

/// Bytes of the longest frame: what is left of a chunk after the room before it, with the kernel's 256 bytes.
pub const LONGEST_FRAME: usize = CHUNK - 256 - HEADROOM as usize;

/// Where frames come in.
#[derive(Debug)]
pub struct Receiver {
    // Frames stop to come before the socket is closed.
    _program: Program,
    socket: Arc<OwnedFd>,
    interface: Arc<Interface>,
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
    outgoing: Outgoing,
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
    let interface = Arc::new(Interface::find(name)?);
    interface.must_be_ethernet()?;
    let refused = |what| Error::refused(name, what);
    let socket = Arc::new(socket().map_err(Error::refused(name, "an XDP socket"))?);
    let chunks =
        Chunks::new(socket.as_fd(), 2 * ENTRIES as usize, HEADROOM).map_err(refused("memory for frames"))?;
    let [incoming, outbound] = chunks.halves();
    let offsets: libc::xdp_mmap_offsets =
        option(&socket, SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(refused("to tell where rings are"))?;
    let (at, refuse) = (socket.as_fd(), || refused("a ring"));
    let filled = Ring::new(at, libc::XDP_RX_RING, RECEIVED, offsets.rx, ENTRIES).map_err(refuse())?;
    let waiting = Ring::new(at, libc::XDP_TX_RING, OUTGOING, offsets.tx, ENTRIES).map_err(refuse())?;
    let mut empty = Ring::new(at, libc::XDP_UMEM_FILL_RING, EMPTY, offsets.fr, ENTRIES).map_err(refuse())?;
    let done =
        Ring::new(at, libc::XDP_UMEM_COMPLETION_RING, COMPLETED, offsets.cr, ENTRIES).map_err(refuse())?;
    incoming.each().for_each(|chunk| empty.put(chunk));
    empty.publish();
    bind_to_first_queue(socket.as_fd(), interface.index()).map_err(refused("its first queue"))?;
    let program = Program::attach(interface.index(), socket.as_fd()).map_err(refused("a program"))?;
    let sender = Sender {
        socket: socket.clone(),
        outgoing: Outgoing::of(socket.clone(), outbound, waiting, done),
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

    pub(crate) const fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sender {
    pub(crate) fn send(&mut self, frame: &[u8], offload: Offload) {
        let Self { outgoing, scratch, sent, .. } = self;
        let done = finish(frame, offload, scratch, |frame| {
            if frame.len() > LONGEST_FRAME {
                sent.errors += 1;
                return;
            }
            if outgoing.put(frame, sent) {
                return;
            }
            let _ = outgoing.flush(sent);
            if !outgoing.put(frame, sent) {
                sent.dropped += 1;
            }
        });
        if done.is_err() {
            sent.errors += 1;
        }
    }

    pub(crate) fn flush(&mut self) -> bool {
        // If there is no link, its receiver says so.
        self.outgoing.flush(&mut self.sent) != Flushed::Some
    }

    pub(crate) fn sent(&self) -> Traffic {
        let mut sent = self.sent;
        if let Ok(found) = option::<libc::xdp_statistics>(&self.socket, SOL_XDP, libc::XDP_STATISTICS) {
            sent.errors += found.tx_invalid_descs;
        }
        sent
    }
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

/// A queue belongs to its last socket until some time after that was closed: 25 to 50 ms, as seen.
fn bind_to_first_queue(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    for _ in 0..TIMES {
        match bind_to_queue(socket, interface, 0) {
            Err(why) if why.kind() == io::ErrorKind::ResourceBusy => thread::sleep(WHILE),
            done => return done,
        }
    }
    bind_to_queue(socket, interface, 0)
}
