//! What goes into tunnels, from one thread of a switch.

use super::Outer;
use super::vtep::Vtep;
use crate::Offload;
use crate::offload::finish;
use fulmar_packet::vxlan;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg};
use std::io::IoSlice;
use std::net::SocketAddrV4;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

/// Bytes of the longest datagram, or train of them: what IPv4 can carry, without its header and that of UDP.
const LONGEST: usize = 65_535 - 20 - 8;
/// So many datagrams a kernel takes at once (`UDP_MAX_SEGMENTS`; since Linux 6.9 there may be more).
const MOST: usize = 64;

/// What has become of frames that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departed {
    /// The switch's port that is the tunnel's end.
    pub port: u32,
    /// How many: of one that was cut, each piece.
    pub frames: u64,
    /// Their bytes, without what is outside.
    pub bytes: u64,
    /// Whether the kernel has taken them.
    pub went: bool,
}

/// Datagrams that wait: of one size but for the last, with the same outside.
#[derive(Clone, Copy, Debug)]
struct Train {
    port: u32,
    outer: Outer,
    entropy: u64,
    size: usize,
    count: usize,
    /// The last one is shorter.
    is_closed: bool,
}

/// Where frames of one thread go out to all tunnels of one UDP port.
#[derive(Debug)]
pub struct Departures {
    vtep: Arc<Vtep>,
    train: Option<Train>,
    /// The train's datagrams, one after the other.
    bytes: Vec<u8>,
    scratch: Vec<u8>,
    departed: Vec<Departed>,
}

impl Departures {
    pub(super) fn new(vtep: Arc<Vtep>) -> Self {
        Self { vtep, train: None, bytes: Vec::new(), scratch: Vec::new(), departed: Vec::new() }
    }

    /// The UDP port.
    pub fn udp_port(&self) -> u16 {
        self.vtep.udp_port()
    }

    /// Sends a frame of a port, at the latest with the next [`flush`](Self::flush); what is left to be done to it is done before. By `entropy`
    /// ways can differ: frames of one connection have the same, and keep their order.
    pub fn send(&mut self, port: u32, outer: &Outer, entropy: u64, frame: &[u8], offload: Offload) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let finished = finish(frame, offload, &mut scratch, |piece| self.add(port, outer, entropy, piece));
        self.scratch = scratch;
        if finished.is_err() {
            self.departed.push(Departed { port, frames: 1, bytes: frame.len() as u64, went: false });
        }
    }

    fn add(&mut self, port: u32, outer: &Outer, entropy: u64, frame: &[u8]) {
        let size = vxlan::HEADER + frame.len();
        let has_room = |train: &Train| {
            (train.port, train.outer, train.entropy) == (port, *outer, entropy)
                && !train.is_closed
                && size <= train.size
                && train.count < MOST
                && self.bytes.len() + size <= LONGEST
        };
        if !self.train.as_ref().is_some_and(has_room) {
            self.depart();
            self.train = Some(Train { port, outer: *outer, entropy, size, count: 0, is_closed: false });
        }
        if let Some(train) = &mut self.train {
            train.count += 1;
            train.is_closed = size < train.size;
        }
        self.bytes.extend_from_slice(&vxlan::header(outer.network));
        self.bytes.extend_from_slice(frame);
    }

    /// Sends all frames that wait, and tells what has become of those that were sent since the last time.
    pub fn flush(&mut self) -> impl Iterator<Item = Departed> {
        self.depart();
        self.departed.drain(..)
    }

    fn depart(&mut self) {
        let Some(train) = self.train.take() else { return };
        let departed = |frames: usize, bytes: usize, went| Departed {
            port: train.port,
            frames: frames as u64,
            bytes: (bytes - frames * vxlan::HEADER) as u64,
            went,
        };
        match self.post(&train, &self.bytes, train.count > 1) {
            // One by one: the path takes no trains, or cuts datagrams into fragments.
            Err(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE) if train.count > 1 => {
                for datagram in self.bytes.chunks(train.size) {
                    let went = self.post(&train, datagram, false).is_ok();
                    self.departed.push(departed(1, datagram.len(), went));
                }
            }
            posted => self.departed.push(departed(train.count, self.bytes.len(), posted.is_ok())),
        }
        self.bytes.clear();
    }

    fn post(&self, train: &Train, bytes: &[u8], is_train: bool) -> Result<(), Errno> {
        let outer = &train.outer;
        let ttl = libc::c_int::from(outer.ttl);
        let size = u16::try_from(train.size).map_err(|_| Errno::EMSGSIZE)?;
        let local = libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr { s_addr: outer.local.to_bits().to_be() },
            ipi_addr: libc::in_addr { s_addr: 0 },
        };
        let told = [
            ControlMessage::Ipv4PacketInfo(&local),
            ControlMessage::Ipv4Tos(&outer.tos),
            ControlMessage::Ipv4Ttl(&ttl),
            ControlMessage::UdpGsoSegments(&size),
        ];
        let told = if is_train { &told[..] } else { &told[..3] };
        let socket = self.vtep.lane(outer.is_whole, train.entropy);
        let to = SockaddrIn::from(SocketAddrV4::new(outer.remote, self.vtep.udp_port()));
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendmsg(socket.as_raw_fd(), &[IoSlice::new(bytes)], told, flags, Some(&to)).map(drop)
    }
}
