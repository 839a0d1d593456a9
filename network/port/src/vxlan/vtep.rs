//! The end of tunnels at one UDP port: its sockets, and whose datagrams are whose.

use super::arrivals::{Arrivals, HEADROOM, Inbox, Train};
use super::departures::Departures;
use super::table::{Claim, Owner, Table};
use crate::Error;
use crate::kernel::set_option;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt};
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From so many UDP ports datagrams are sent, so that connections inside can take different ways outside (RFC 7348, section 5).
const LANES: usize = 16;
/// Bytes that may wait in a socket: some milliseconds at 10 Gb/s.
const WAITING: usize = 8 << 20;
/// Bytes of the longest datagram, or train of them.
const LONGEST: usize = 65_535;

/// Datagrams that no switch was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// There was no VXLAN header in it, or no frame.
    pub malformed: u64,
    /// It came by no tunnel that there is.
    pub unclaimed: u64,
    /// It met congestion, of which what is inside cannot know (RFC 6040, section 4.2).
    pub congested: u64,
    /// The switch did not fetch it from another that had received it.
    pub late: u64,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) malformed: Count,
    pub(super) unclaimed: Count,
    pub(super) congested: Count,
    pub(super) late: Count,
}

/// The end of a process's tunnels that use one UDP port (in RFC 7348, a VXLAN tunnel end point). Several switches may have tunnels here.
#[derive(Debug)]
pub struct Vtep {
    udp_port: u16,
    socket: UdpSocket,
    /// Those that let a datagram be cut into fragments, and those that do not.
    lanes: [Vec<UdpSocket>; 2],
    /// Who receives has this; so frames are taken from the socket and handed over in their order.
    pub(super) receiving: Mutex<Receiving>,
    pub(super) dropped: Counts,
}

#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) table: Table,
    pub(super) buffer: Box<[u8]>,
    control: Vec<u8>,
}

impl Receiving {
    /// The next datagrams.
    pub(super) fn read(&mut self, socket: BorrowedFd<'_>) -> Option<Train> {
        let mut parts = [IoSliceMut::new(&mut self.buffer[HEADROOM..])];
        let flags = MsgFlags::MSG_DONTWAIT;
        // What is wrong with a datagram that was sent is told here, too: it is no news.
        let message = loop {
            match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut parts, Some(&mut self.control), flags) {
                Ok(message) => break message,
                Err(nix::errno::Errno::EAGAIN) => return None,
                Err(nix::errno::Errno::ECONNREFUSED | nix::errno::Errno::EINTR) => {}
                Err(_) => return None,
            }
        };
        let length = message.bytes;
        let (mut size, mut local, mut tos) = (length, Ipv4Addr::UNSPECIFIED, 0);
        for told in message.cmsgs().ok()? {
            match told {
                ControlMessageOwned::UdpGroSegments(bytes) => size = usize::try_from(bytes).unwrap_or(length),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    local = Ipv4Addr::from_bits(u32::from_be(info.ipi_addr.s_addr));
                }
                ControlMessageOwned::Ipv4Tos(told) => tos = told,
                _ => {}
            }
        }
        let remote = message.address.map_or(Ipv4Addr::UNSPECIFIED, |address| address.ip());
        Some(Train { length, size: size.max(1), remote, local, tos })
    }
}

impl Vtep {
    /// Opens the sockets, in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; because somebody else has the UDP port, say: the kernel's own VXLAN device, or another switch.
    pub fn open(udp_port: u16) -> Result<Arc<Self>, Error> {
        let name = format!("(VXLAN on UDP port {udp_port})");
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, udp_port))
            .map_err(Error::refused(&name, "the port: does a VXLAN device or another switch have it?"))?;
        let asked = setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)
            .and_then(|()| setsockopt(&socket, sockopt::IpRecvTos, &true))
            .and_then(|()| setsockopt(&socket, sockopt::UdpGroSegment, &true));
        asked.map_err(Error::refused(&name, "to tell what is known of datagrams"))?;
        // As much as it allows: without `CAP_NET_ADMIN`, that is less.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &WAITING);
        let lanes = [false, true].map(|is_whole| lanes(&name, is_whole));
        let [cut, whole] = lanes;
        let receiving = Receiving {
            table: Table::default(),
            buffer: vec![0; HEADROOM + LONGEST].into(),
            control: nix::cmsg_space!(libc::in_pktinfo, u8, libc::c_int),
        };
        Ok(Arc::new(Self {
            udp_port,
            socket,
            lanes: [cut?, whole?],
            receiving: Mutex::new(receiving),
            dropped: Counts::default(),
        }))
    }

    /// The UDP port.
    pub fn udp_port(&self) -> u16 {
        self.udp_port
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket for what must not be cut, or may be, of a connection inside.
    pub(super) fn lane(&self, is_whole: bool, entropy: u64) -> BorrowedFd<'_> {
        let lane = usize::try_from(entropy % LANES as u64).unwrap_or_default();
        self.lanes[usize::from(is_whole)][lane].as_fd()
    }

    /// What comes in for one more switch, and which datagrams those are.
    ///
    /// # Errors
    ///
    /// If the process has too many open files.
    pub fn join(self: &Arc<Self>) -> Result<(Arrivals, Claims), Error> {
        let inbox = Arc::new(Inbox::new()?);
        let arrivals = Arrivals::new(self.clone(), inbox.clone());
        Ok((arrivals, Claims { vtep: self.clone(), inbox }))
    }

    /// What goes out, of one more thread.
    pub fn departures(self: &Arc<Self>) -> Departures {
        Departures::new(self.clone())
    }

    /// What was dropped.
    pub fn dropped(&self) -> Dropped {
        let [malformed, unclaimed, congested, late] =
            [&self.dropped.malformed, &self.dropped.unclaimed, &self.dropped.congested, &self.dropped.late]
                .map(|count| count.0.load(Relaxed));
        Dropped { malformed, unclaimed, congested, late }
    }

    fn receiving(&self) -> MutexGuard<'_, Receiving> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which datagrams are one switch's.
#[derive(Debug)]
pub struct Claims {
    vtep: Arc<Vtep>,
    inbox: Arc<Inbox>,
}

impl Claims {
    /// From now on these datagrams come in at a port of the switch.
    ///
    /// # Errors
    ///
    /// If another port, of this switch or another, has made the same claim.
    pub fn admit(&self, claim: Claim, port: u32) -> Result<(), Error> {
        let owner = Owner { port, inbox: self.inbox.clone() };
        let is_new = self.vtep.receiving().table.admit(claim, owner);
        is_new.then_some(()).ok_or_else(|| Error::Claimed { claim: claim.to_string() })
    }

    /// From now on none do.
    pub fn dismiss(&self, port: u32) {
        self.vtep.receiving().table.dismiss(port, &self.inbox);
    }

    /// The end of tunnels that this is of.
    pub fn vtep(&self) -> &Vtep {
        &self.vtep
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.vtep.receiving().table.dismiss_all(&self.inbox);
    }
}

fn lanes(name: &str, is_whole: bool) -> Result<Vec<UdpSocket>, Error> {
    // `IP_PMTUDISC_DO` and `IP_PMTUDISC_DONT`.
    let discovery: libc::c_int = if is_whole { 2 } else { 0 };
    let lane = |_| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(Error::refused(name, "a socket"))?;
        set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &discovery)
            .map_err(Error::refused(name, "to say what may be cut"))?;
        let _ = setsockopt(&socket, sockopt::SndBufForce, &WAITING);
        Ok(socket)
    };
    (0..LANES).map(lane).collect()
}
