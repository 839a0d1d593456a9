//! A port on a network interface, through a packet socket (`packet(7)`).
//!
//! Frames come in a ring that is shared with the kernel, whose slots hold a frame of the interface's MTU. Segments that are yet to be
//! cut are longer: of those the kernel queues a whole copy, which is read with a system call of its own. So the ring stays
//! small enough for a processor's cache, whatever the longest frame is.
//!
//! Frames carry virtio's header (see [`offload`]) both ways: a kernel that has no hardware for what is left to be done does it itself.
//! Only short ones that go to an interface with one queue do not: they leave by an XDP socket, which is faster.

mod express;
mod outbox;
mod ring;
mod single;
mod slots;
mod steering;

use crate::interface::Interface;
use crate::kernel::{bind_to_interface, option, set_option};
use crate::offload::{self, HEADER};
use crate::{Error, Frame, LONGEST_FRAME, Offload, Port, Traffic, port};
use express::Express;
use fulmar_packet::ethernet;
use libc::SOL_PACKET;
use outbox::Outbox;
use ring::{Ring, Slot};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Room before a frame, beside that for the tag which the kernel may have taken out.
const HEADROOM: u16 = 128;
/// `PACKET_MR_PROMISC`, of the type that its field has.
const PROMISCUOUS: u16 = 1;
/// Of a port; of all ports of an interface together, as far as that leaves each the fewest that it has.
const SLOTS: usize = 2048;
const ALL_SLOTS: usize = 2 * SLOTS;
const FEWEST_SLOTS: usize = 256;
const SMALLEST_SLOT: usize = 2048;
const LARGEST_SLOT: usize = 16384;
/// For segments that wait to be read; the kernel counts what it needs for its own notes, too.
const QUEUE_BYTES: u32 = 32 << 20;
/// `ETH_P_ALL`.
const EVERY_PROTOCOL: u16 = 3;
/// An empty ring may be due to an error; so many times it is taken for empty before the socket is asked.
const ASK_EVERY: u32 = 64;

/// Where frames come in.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<OwnedFd>,
    interface: Arc<Interface>,
    ring: Ring,
    long: Box<[u8]>,
    received: Traffic,
    found_empty: u32,
    /// The interface was seen to be down, and not up since.
    is_down: bool,
}

/// Where frames go out.
#[derive(Debug)]
pub struct Sender {
    outbox: Outbox,
    sent: Traffic,
}

/// Opens the interface of this name, in the network namespace of the calling thread. It sees all frames that arrive at the
/// interface, also those that are not for its address. If the interface has one queue, no XDP socket of others can be had there from then on;
/// one that was there before is left alone, and frames go out more slowly.
///
/// # Errors
///
/// If there is no such interface, it is no Ethernet, or the kernel refuses: for want of `CAP_NET_RAW`, say.
pub fn open(name: &str) -> Result<Port, Error> {
    let only = open_lanes(name, NonZeroUsize::MIN)?.pop();
    Ok(only.unwrap_or_else(|| unreachable!("there are as many as were asked for")))
}

/// The same as so many ports, for as many threads. A frame comes in at one of them: at that for the processor on which it was sent (whose number
/// modulo their count is its place), so that whoever sends and receives there is not woken from afar; but all frames of a flow at the same one, so that they keep their
/// order, until it was silent for 10 ms. (If the kernel takes no program for this, a flow's addresses and ports say at which.) It is one port, if the
/// kernel has only that: before Linux 6.13, if the interface is down.
///
/// # Errors
///
/// As of [`open`].
pub fn open_lanes(name: &str, count: NonZeroUsize) -> Result<Vec<Port>, Error> {
    let interface = Arc::new(Interface::find(name)?);
    interface.must_be_ethernet()?;
    let frame = interface.link()?.mtu as usize + ethernet::HEADER + 2 * ethernet::TAG;
    let slot = (frame + 2 * usize::from(HEADROOM)).next_power_of_two().clamp(SMALLEST_SLOT, LARGEST_SLOT);
    let slots = 1 << (ALL_SLOTS / count).clamp(FEWEST_SLOTS, SLOTS).ilog2();
    let receivers: Result<Vec<_>, _> = (0..count.get()).map(|_| receiver(&interface, slot, slots)).collect();
    let mut receivers = receivers?;
    if steering::steer(&receivers).is_err() {
        receivers.truncate(1);
    }
    // Until they were joined, each had a copy of all.
    receivers.iter_mut().skip(1).try_for_each(Receiver::discard)?;
    let mut expresses = Express::several(&interface, receivers.len()).into_iter();
    let ports = receivers.into_iter().map(|receiver| {
        let outbox = Outbox::new(&interface, receiver.socket.clone(), expresses.next())?;
        let sender = Sender { outbox, sent: Traffic::default() };
        Ok(Port::new(port::Receiver::Packet(Box::new(receiver)), port::Sender::Packet(Box::new(sender))))
    });
    ports.collect()
}

/// A socket for frames that come in, whose ring has so many slots of so many bytes.
fn receiver(interface: &Arc<Interface>, slot: usize, slots: usize) -> Result<Receiver, Error> {
    let name = interface.name();
    let socket = socket_for(name)?;
    let set = |what, option, value: u32| {
        set_option(&socket, SOL_PACKET, option, &value).map_err(Error::refused(name, what))
    };
    set("room before frames", libc::PACKET_RESERVE, HEADROOM.into())?;
    set("copies of long frames", libc::PACKET_COPY_THRESH, 1)?;
    set("to leave out its own frames", libc::PACKET_IGNORE_OUTGOING, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &QUEUE_BYTES)
        .map_err(Error::refused(name, "a long queue"))?;
    let ring = Ring::new(socket.as_fd(), slot, slots).map_err(Error::refused(name, "a ring"))?;
    bind_to_interface(&socket, interface.index(), EVERY_PROTOCOL)
        .map_err(Error::refused(name, "its frames"))?;
    let everything = libc::packet_mreq {
        mr_ifindex: interface.index().cast_signed(),
        mr_type: PROMISCUOUS,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(&socket, SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &everything)
        .map_err(Error::refused(name, "frames for other addresses"))?;
    Ok(Receiver {
        socket: Arc::new(socket),
        interface: interface.clone(),
        ring,
        long: vec![0; usize::from(HEADROOM) + HEADER + LONGEST_FRAME].into(),
        received: Traffic::default(),
        found_empty: 0,
        is_down: false,
    })
}

impl Receiver {
    pub(crate) fn receive(&mut self, limit: usize, mut each: impl FnMut(Frame<'_>)) -> Result<usize, Error> {
        let Self { socket, ring, long, received, is_down, .. } = self;
        let mut count = 0;
        while count < limit
            && ring.take(|slot| match frame_of(slot, socket.as_fd(), long, is_down) {
                Some(frame) => {
                    received.count(frame.bytes().len());
                    each(frame);
                }
                None => received.errors += 1,
            })
        {
            count += 1;
        }
        if count == 0 {
            self.explain_emptiness()?;
        }
        Ok(count)
    }

    /// Forgets what has come.
    fn discard(&mut self) -> Result<(), Error> {
        let before = self.received;
        let discarded = self.receive(SLOTS, |_| ());
        self.received = before;
        match discarded {
            // Whoever waits for frames is told of it.
            Ok(_) | Err(Error::Down { .. }) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Nothing has come. Is that all right?
    fn explain_emptiness(&mut self) -> Result<(), Error> {
        self.found_empty += 1;
        if self.is_down || self.found_empty.is_multiple_of(ASK_EVERY) {
            // Asking takes the error away.
            self.is_down |= rustix::net::sockopt::socket_error(&self.socket)
                .map_err(Error::refused(self.interface.name(), "to tell what is wrong"))?
                .is_err();
            if self.is_down {
                self.interface.must_be_up()?;
                self.is_down = false;
            }
        }
        Ok(())
    }

    pub(crate) fn received(&mut self) -> Traffic {
        // The kernel begins to count anew whenever it is asked.
        if let Ok(news) = option::<libc::tpacket_stats>(&self.socket, SOL_PACKET, libc::PACKET_STATISTICS) {
            self.received.dropped += u64::from(news.tp_drops);
        }
        self.received
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
        self.outbox.push(frame, offload, &mut self.sent);
    }

    pub(crate) fn flush(&mut self) -> bool {
        self.outbox.flush(&mut self.sent)
    }

    pub(crate) fn sent(&self) -> Traffic {
        self.sent
    }
}

/// A packet socket, of no protocol: nothing comes in before it is bound, and all is set up.
fn socket_for(name: &str) -> Result<OwnedFd, Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(Error::refused(name, "a packet socket"))?;
    let set = |what, level, option, value: u32| {
        set_option(&socket, level, option, &value).map_err(Error::refused(name, what))
    };
    let version = libc::tpacket_versions::TPACKET_V2 as u32;
    set("slots with one frame each", SOL_PACKET, libc::PACKET_VERSION, version)?;
    set("virtio headers", SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set("to pass over queues", SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
    set("a large buffer", libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, QUEUE_BYTES)?;
    Ok(socket)
}

/// The frame in a slot, or in the queue if it is too long for that, with its tag put back.
fn frame_of<'a>(
    slot: Slot<'a>,
    socket: BorrowedFd<'_>,
    long: &'a mut [u8],
    is_down: &mut bool,
) -> Option<Frame<'a>> {
    let (buffer, start) = match slot.is_queued {
        true => {
            let room = usize::from(HEADROOM);
            let mut read = || recv(socket, &mut long[room..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
            // If the interface has gone down since, that is told first, once; the frame is still there.
            let (length, _) = read()
                .or_else(|_| {
                    *is_down = true;
                    read()
                })
                .ok()?;
            (long.get_mut(..room + length)?, room + HEADER)
        }
        false if slot.buffer.len() - slot.start < slot.length => return None,
        false => (slot.buffer, slot.start),
    };
    let (_, header) = buffer[..start].split_last_chunk::<HEADER>()?;
    let mut frame = Frame::new(buffer, start, offload::read(*header)?);
    if let Some((kind, content)) = slot.tag {
        let bytes = frame.grow_front(ethernet::TAG)?;
        bytes.copy_within(ethernet::TAG..ethernet::TAG + ethernet::ADDRESSES, 0);
        let tag = &mut bytes[ethernet::ADDRESSES..ethernet::ADDRESSES + ethernet::TAG];
        tag[..2].copy_from_slice(&kind.to_be_bytes());
        tag[2..].copy_from_slice(&content.to_be_bytes());
    }
    Some(frame)
}
