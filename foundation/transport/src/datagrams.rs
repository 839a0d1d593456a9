//! Messages between servers that fit one datagram: to one server, or to all of an IP multicast group with one send.
//!
//! A datagram is a greeting, as on a connection, and the message behind it. Which socket receives what: one socket,
//! bound to the server's own address, sends everything and receives what is sent to this server alone; each group has a
//! socket that is bound to the group's address, so that servers of one host can share the port.

use crate::hello::{FIRST_CLIENT, HELLO_LENGTH, Hello, Protocol};
use fulmar_node::{MulticastId, NodeId, Random};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags,
    SocketType, addr::SocketAddrArg as _, bind, recv, sendmmsg, sendto, socket_with, sockopt,
};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of a datagram, greeting included, that an Ethernet frame of 1500 carries over IPv4 in one piece. Messages that
/// do not fit go by stream.
pub const LARGEST_DATAGRAM: usize = 1472;
/// So many datagrams are taken from one socket before connections get their turn.
const BATCH: u32 = 64;
/// So many are sent at the latest, though the turn has not ended: as many as the system takes at once.
const MOST_UNSENT: usize = 1024;

/// A bad network, for experiments: what is done to datagrams that arrive.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// How likely one is dropped, from 0 to 1…
    pub drop: f64,
    /// …and how likely those overtake it that are there before the server rests.
    pub reorder: f64,
    /// Whence chance comes.
    pub random: Random,
}

/// Sockets for datagrams, and who is reached by them.
#[derive(Debug)]
pub struct Datagrams {
    /// The first is the server's own.
    sockets: Vec<OwnedFd>,
    addresses: BTreeMap<NodeId, SocketAddr>,
    groups: BTreeMap<MulticastId, SocketAddrV4>,
    /// For each socket, how many datagrams may be taken from it in this turn.
    ready: Vec<u32>,
    received: Vec<u8>,
    /// Datagrams that were none of this cluster's, and are not counted yet.
    malformed: u64,
    disturbance: Option<Disturbance>,
    /// What is to be overtaken.
    held: Vec<u8>,
    /// What is to be sent when the turn ends: datagrams one after the other, and for each where it goes and where it ends.
    unsent: Vec<u8>,
    receivers: Vec<(SocketAddrAny, usize)>,
}

impl Datagrams {
    /// Receives what is sent to this socket, and sends through it.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            sockets: vec![socket.into()],
            addresses: BTreeMap::new(),
            groups: BTreeMap::new(),
            ready: vec![0],
            received: Vec::new(),
            malformed: 0,
            disturbance: None,
            held: Vec::new(),
            unsent: Vec::new(),
            receivers: Vec::new(),
        })
    }

    /// Does this to what arrives from now on.
    pub fn disturb(&mut self, disturbance: Disturbance) {
        self.disturbance = Some(disturbance);
    }

    /// Sends messages that fit to this server here. A datagram may be lost where a stream would not have lost it.
    pub fn address(&mut self, server: NodeId, address: SocketAddr) {
        self.addresses.insert(server, address);
    }

    /// Sends multicasts that fit to this address, over the interface that has the address `interface` and at most
    /// `hops` routers far. Members join with [`Self::join`]. What one sends reaches itself as well, if it has joined.
    ///
    /// # Errors
    ///
    /// What the system says, for example if there is no such interface.
    pub fn group(
        &mut self,
        group: MulticastId,
        address: SocketAddrV4,
        interface: Ipv4Addr,
        hops: u8,
    ) -> io::Result<()> {
        let socket = &self.sockets[0];
        sockopt::set_ip_multicast_if(socket, &interface)?;
        sockopt::set_ip_multicast_loop(socket, true)?;
        sockopt::set_ip_multicast_ttl(socket, hops.into())?;
        self.groups.insert(group, address);
        Ok(())
    }

    /// Receives what is sent to a multicast address and arrives at an interface.
    ///
    /// # Errors
    ///
    /// What the system says, for example if the address is none of a group.
    pub fn join(&mut self, address: SocketAddrV4, interface: Ipv4Addr) -> io::Result<()> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        sockopt::set_ip_add_membership(&socket, address.ip(), &interface)?;
        self.sockets.push(socket);
        self.ready.push(0);
        Ok(())
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// The socket can be read from.
    pub(crate) fn stir(&mut self, at: usize) {
        self.ready[at] = BATCH;
    }

    /// Where a server receives datagrams, if it does.
    pub(crate) fn of_server(&self, to: NodeId) -> Option<SocketAddr> {
        self.addresses.get(&to).copied()
    }

    /// Where a group receives datagrams, if it does.
    pub(crate) fn of_group(&self, to: MulticastId) -> Option<SocketAddr> {
        self.groups.get(&to).copied().map(SocketAddr::V4)
    }

    /// Sends a message, at the end of this turn, if it fits; returns the bytes of its datagram, or nothing if it does not.
    pub(crate) fn send(
        &mut self,
        to: SocketAddr,
        protocol: Protocol,
        from: NodeId,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Option<usize> {
        let begin = self.unsent.len();
        self.unsent.extend_from_slice(&Hello { protocol, from: Some(from), to: None }.encode());
        body(&mut self.unsent);
        let length = self.unsent.len() - begin;
        if length > LARGEST_DATAGRAM {
            self.unsent.truncate(begin);
            return None;
        }
        self.receivers.push((to.as_any(), self.unsent.len()));
        if self.receivers.len() == MOST_UNSENT {
            self.flush();
        }
        Some(length)
    }

    /// Sends what the turn has left, with one system call. A datagram that the system does not take is lost like one that the
    /// network loses.
    pub(crate) fn flush(&mut self) {
        let socket = &self.sockets[0];
        match &self.receivers[..] {
            [] => return,
            [(to, _)] => drop(sendto(socket, &self.unsent, SendFlags::NOSIGNAL, to)),
            many => send_many(socket, &self.unsent, many),
        }
        self.unsent.clear();
        self.receivers.clear();
    }

    /// Takes the next datagram that a server of this cluster sent; its message is [`Self::body`]. What others send is
    /// no concern of ours: there is nobody to tell.
    pub(crate) fn next(&mut self, protocol: Protocol) -> Option<NodeId> {
        while self.take() {
            let sender = Hello::decode(&self.received).ok().filter(|hello| hello.protocol == protocol);
            match sender.and_then(|hello| hello.from).filter(|&from| from < FIRST_CLIENT) {
                Some(from) => return Some(from),
                None => self.malformed += 1,
            }
        }
        None
    }

    /// How many were none of this cluster's since this was asked last.
    pub(crate) fn take_malformed(&mut self) -> u64 {
        std::mem::take(&mut self.malformed)
    }

    /// Takes the next datagram that the network, or who disturbs it, lets through.
    fn take(&mut self) -> bool {
        while self.receive() {
            let Some(Disturbance { drop, reorder, random }) = &mut self.disturbance else { return true };
            if random.happens(*drop) {
                continue;
            }
            if self.held.is_empty() && random.happens(*reorder) {
                std::mem::swap(&mut self.held, &mut self.received);
                continue;
            }
            return true;
        }
        // What was to be overtaken comes at last.
        std::mem::swap(&mut self.held, &mut self.received);
        self.held.clear();
        !self.received.is_empty()
    }

    /// Receives from the first socket that has something.
    fn receive(&mut self) -> bool {
        let mut at = 0;
        while let Some(ready) = self.ready.get_mut(at) {
            if *ready == 0 {
                at += 1;
                continue;
            }
            *ready -= 1;
            self.received.clear();
            self.received.reserve(LARGEST_DATAGRAM + 1);
            let room = rustix::buffer::spare_capacity(&mut self.received);
            match recv(&self.sockets[at], room, RecvFlags::DONTWAIT) {
                Ok(_) => return true,
                Err(Errno::AGAIN) => self.ready[at] = 0,
                // Among other errors: a server that was sent to is not there.
                Err(_) => {}
            }
        }
        false
    }

    /// The message in the datagram that was taken last.
    pub(crate) fn body(&self) -> &[u8] {
        self.received.get(HELLO_LENGTH..).unwrap_or_default()
    }
}

/// Sends datagrams that lie one after the other, each with where it goes and where it ends.
fn send_many(socket: &OwnedFd, datagrams: &[u8], receivers: &[(SocketAddrAny, usize)]) {
    let begins = std::iter::once(0).chain(receivers.iter().map(|(_, end)| *end));
    let slice = |(begin, (_, end)): (usize, &(_, usize))| [IoSlice::new(&datagrams[begin..*end])];
    let slices: Vec<[IoSlice<'_>; 1]> = begins.zip(receivers).map(slice).collect();
    let mut nothing: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        receivers.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut headers: Vec<MMsgHdr<'_>> = Vec::with_capacity(receivers.len());
    for ((slice, nothing), (to, _)) in slices.iter().zip(&mut nothing).zip(receivers) {
        headers.push(MMsgHdr::new_with_addr(to, slice, nothing));
    }
    let mut rest = &mut headers[..];
    while !rest.is_empty() {
        // An error is the first one's: it is lost.
        let taken = sendmmsg(socket, rest, SendFlags::NOSIGNAL).unwrap_or(1).max(1);
        rest = &mut rest[taken..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterId;

    /// What arrives of three messages.
    fn arrived(drop: f64, reorder: f64) -> Vec<u8> {
        let protocol = Protocol { cluster: ClusterId(1), version: 1 };
        let [mut here, mut there] = [(); 2]
            .map(|()| Datagrams::new(UdpSocket::bind("127.0.0.1:0").expect("a port")).expect("it is set up"));
        let address = rustix::net::getsockname(&there.sockets[0]).expect("bound");
        for number in 1..=3 {
            let to = SocketAddr::try_from(address.clone()).expect("of the Internet");
            here.send(to, protocol, NodeId(1), |body| body.push(number)).expect("it fits");
        }
        here.flush();
        there.disturb(Disturbance { drop, reorder, random: Random::new(1) });
        there.stir(0);
        std::iter::from_fn(|| there.next(protocol).map(|_| there.body()[0])).collect()
    }

    #[test]
    fn a_bad_network_drops_or_delays() {
        assert_eq!(arrived(0.0, 0.0), [1, 2, 3]);
        assert_eq!(arrived(1.0, 0.0), []);
        assert_eq!(arrived(0.0, 1.0), [2, 3, 1]);
    }
}
