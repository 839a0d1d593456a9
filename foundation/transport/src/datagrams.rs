//! Messages between servers that fit one datagram: to one server, or to all of an IP multicast group with one send.
//!
//! A datagram is a greeting, as on a connection, and behind it messages, each after its length in two bytes: all that one turn
//! has for one receiver, as far as they fit. A datagram costs the system far more than a message in it. Which socket receives what: one socket,
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
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of a datagram, greeting and lengths included, that an Ethernet frame of 1500 carries over IPv4 in one piece. Messages that
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
    /// Who has sent what was received last…
    from: NodeId,
    /// …and where in it the message is that was taken last.
    message: Range<usize>,
    /// Datagrams that were none of this cluster's, and are not counted yet.
    malformed: u64,
    disturbance: Option<Disturbance>,
    /// What is to be overtaken.
    held: Vec<u8>,
    /// What is to be sent when the turn ends, and where.
    unsent: Vec<(SocketAddrAny, Vec<u8>)>,
    /// The room of what was sent.
    spare: Vec<Vec<u8>>,
    /// The message that is being sent.
    encoded: Vec<u8>,
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
            from: NodeId(0),
            message: 0..0,
            malformed: 0,
            disturbance: None,
            held: Vec::new(),
            unsent: Vec::new(),
            spare: Vec::new(),
            encoded: Vec::new(),
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

    /// Sends a message, at the end of this turn, if it fits; returns the bytes that this adds, or nothing if it does not.
    pub(crate) fn send(
        &mut self,
        to: SocketAddr,
        protocol: Protocol,
        from: NodeId,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Option<usize> {
        self.encoded.clear();
        body(&mut self.encoded);
        let length = u16::try_from(self.encoded.len()).ok()?.to_be_bytes();
        let added = length.len() + self.encoded.len();
        if HELLO_LENGTH + added > LARGEST_DATAGRAM {
            return None;
        }
        let to = to.as_any();
        // Only the last one that goes there, so that messages keep their order. There are few receivers.
        let last = self.unsent.iter_mut().rfind(|(other, _)| *other == to);
        if let Some((_, datagram)) = last
            && datagram.len() + added <= LARGEST_DATAGRAM
        {
            datagram.extend_from_slice(&length);
            datagram.extend_from_slice(&self.encoded);
            return Some(added);
        }
        if self.unsent.len() == MOST_UNSENT {
            self.flush();
        }
        let mut datagram = self.spare.pop().unwrap_or_default();
        datagram.extend_from_slice(&Hello { protocol, from: Some(from), to: None }.encode());
        datagram.extend_from_slice(&length);
        datagram.extend_from_slice(&self.encoded);
        self.unsent.push((to, datagram));
        Some(HELLO_LENGTH + added)
    }

    /// Sends what the turn has left, with one system call. A datagram that the system does not take is lost like one that the
    /// network loses.
    pub(crate) fn flush(&mut self) {
        let socket = &self.sockets[0];
        match &self.unsent[..] {
            [] => return,
            [(to, datagram)] => drop(sendto(socket, datagram, SendFlags::NOSIGNAL, to)),
            many => send_many(socket, many),
        }
        for (_, mut datagram) in self.unsent.drain(..) {
            datagram.clear();
            self.spare.push(datagram);
        }
    }

    /// Takes the next message that a server of this cluster sent; it is [`Self::body`]. What others send is no concern of
    /// ours: there is nobody to tell.
    pub(crate) fn next(&mut self, protocol: Protocol) -> Option<NodeId> {
        while !self.advance() {
            if !self.take() {
                return None;
            }
            let sender = Hello::decode(&self.received).ok().filter(|hello| hello.protocol == protocol);
            match sender.and_then(|hello| hello.from).filter(|&from| from < FIRST_CLIENT) {
                Some(from) => (self.from, self.message) = (from, HELLO_LENGTH..HELLO_LENGTH),
                None => self.give_up(),
            }
        }
        Some(self.from)
    }

    /// Goes on to the next message of what was received last, if there is one.
    fn advance(&mut self) -> bool {
        let rest = self.received.get(self.message.end..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let begin = self.message.end + size_of::<u16>();
        let length = rest.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
        match length.map(|length| begin..begin + length).filter(|place| place.end <= self.received.len()) {
            Some(place) => {
                self.message = place;
                true
            }
            None => {
                self.give_up();
                false
            }
        }
    }

    /// Counts what was received last as malformed, and takes nothing more from it.
    fn give_up(&mut self) {
        self.malformed += 1;
        self.message = self.received.len()..self.received.len();
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

    /// The message that was taken last.
    pub(crate) fn body(&self) -> &[u8] {
        self.received.get(self.message.clone()).unwrap_or_default()
    }
}

/// Sends datagrams, each with where it goes.
fn send_many(socket: &OwnedFd, datagrams: &[(SocketAddrAny, Vec<u8>)]) {
    let slices: Vec<[IoSlice<'_>; 1]> =
        datagrams.iter().map(|(_, datagram)| [IoSlice::new(datagram)]).collect();
    let mut nothing: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        datagrams.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let mut headers: Vec<MMsgHdr<'_>> = Vec::with_capacity(datagrams.len());
    for ((slice, nothing), (to, _)) in slices.iter().zip(&mut nothing).zip(datagrams) {
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

    const PROTOCOL: Protocol = Protocol { cluster: ClusterId(1), version: 1 };

    /// Two servers, and where the second is.
    fn pair() -> (Datagrams, Datagrams, SocketAddr) {
        let [here, there] = [(); 2]
            .map(|()| Datagrams::new(UdpSocket::bind("127.0.0.1:0").expect("a port")).expect("it is set up"));
        let address = rustix::net::getsockname(&there.sockets[0]).expect("bound");
        (here, there, SocketAddr::try_from(address).expect("of the Internet"))
    }

    fn bodies(there: &mut Datagrams) -> Vec<Vec<u8>> {
        there.stir(0);
        std::iter::from_fn(|| there.next(PROTOCOL).map(|_| there.body().to_vec())).collect()
    }

    /// What arrives of three messages, each in a datagram of its own.
    fn arrived(drop: f64, reorder: f64) -> Vec<u8> {
        let (mut here, mut there, to) = pair();
        for number in 1..=3 {
            here.send(to, PROTOCOL, NodeId(1), |body| body.push(number)).expect("it fits");
            here.flush();
        }
        there.disturb(Disturbance { drop, reorder, random: Random::new(1) });
        bodies(&mut there).concat()
    }

    #[test]
    fn a_bad_network_drops_or_delays() {
        assert_eq!(arrived(0.0, 0.0), [1, 2, 3]);
        assert_eq!(arrived(1.0, 0.0), []);
        assert_eq!(arrived(0.0, 1.0), [2, 3, 1]);
    }

    #[test]
    fn messages_of_one_turn_share_datagrams_in_their_order() {
        let (mut here, mut there, to) = pair();
        let elsewhere = "127.0.0.1:9".parse().expect("an address");
        let most = LARGEST_DATAGRAM - HELLO_LENGTH - 2;
        let messages = [vec![], vec![1; 9], vec![2; most], vec![3; 9], vec![4; most - 11]];
        for message in &messages {
            here.send(elsewhere, PROTOCOL, NodeId(1), |_| {}).expect("it fits");
            here.send(to, PROTOCOL, NodeId(1), |body| body.extend(message)).expect("it fits");
        }
        assert_eq!(here.send(to, PROTOCOL, NodeId(1), |body| body.resize(most + 1, 5)), None);
        let sizes: Vec<usize> =
            here.unsent.iter().map(|(_, datagram)| datagram.len() - HELLO_LENGTH).collect();
        assert_eq!(sizes, [10, 13, most + 2, most + 2]);
        here.flush();
        assert_eq!(bodies(&mut there), messages);
        assert_eq!(there.take_malformed(), 0);
    }

    #[test]
    fn what_is_longer_than_its_datagram_is_malformed() {
        let (mut here, mut there, to) = pair();
        for cut in 1..4 {
            here.send(to, PROTOCOL, NodeId(1), |body| body.push(7)).expect("it fits");
            here.send(to, PROTOCOL, NodeId(1), |body| body.extend([8, 9])).expect("it fits");
            let (_, datagram) = here.unsent.last_mut().expect("one");
            datagram.truncate(datagram.len() - cut);
            here.flush();
            assert_eq!(bodies(&mut there), [[7]]);
            assert_eq!(there.take_malformed(), 1);
        }
    }
}
