//! Messages between servers that fit one datagram: to one server, or to all of an IP multicast group with one send.
//!
//! A datagram is a greeting, as on a connection, and the message behind it. Which socket receives what: one socket,
//! bound to the server's own address, sends everything and receives what is sent to this server alone; each group has a
//! socket that is bound to the group's address, so that servers of one host can share the port.

use crate::hello::{FIRST_CLIENT, HELLO_LENGTH, Hello, Protocol};
use fulmar_node::{MulticastId, NodeId};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with, sockopt,
};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of a datagram, greeting included, that an Ethernet frame of 1500 carries over IPv4 in one piece. Messages that
/// do not fit go by stream.
pub const LARGEST_DATAGRAM: usize = 1472;
/// So many datagrams are taken from one socket before connections get their turn.
const BATCH: u32 = 64;

/// Sockets for datagrams, and who is reached by them.
#[derive(Debug)]
pub struct Datagrams {
    /// The first is the server's own.
    sockets: Vec<OwnedFd>,
    addresses: BTreeMap<NodeId, SocketAddr>,
    groups: BTreeMap<MulticastId, SocketAddrV4>,
    /// For each socket, how many datagrams may be taken from it in this turn.
    ready: Vec<u32>,
    buffer: Vec<u8>,
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
            buffer: Vec::with_capacity(LARGEST_DATAGRAM + 1),
        })
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

    /// Sends a message if it fits; returns the bytes of its datagram, or nothing if it does not. A datagram that the
    /// system does not take is lost like one that the network loses.
    pub(crate) fn send(
        &mut self,
        to: SocketAddr,
        protocol: Protocol,
        from: NodeId,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Option<usize> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&Hello { protocol, from: Some(from), to: None }.encode());
        body(&mut self.buffer);
        if self.buffer.len() > LARGEST_DATAGRAM {
            return None;
        }
        let _ = sendto(&self.sockets[0], &self.buffer, SendFlags::NOSIGNAL, &to);
        Some(self.buffer.len())
    }

    /// Takes the next datagram that a server of this cluster sent; its message is [`Self::body`]. What others send is
    /// no concern of ours: there is nobody to tell.
    pub(crate) fn next(&mut self, protocol: Protocol) -> Option<NodeId> {
        let mut at = 0;
        while let Some(ready) = self.ready.get_mut(at) {
            if *ready == 0 {
                at += 1;
                continue;
            }
            *ready -= 1;
            self.buffer.clear();
            let room = rustix::buffer::spare_capacity(&mut self.buffer);
            match recv(&self.sockets[at], room, RecvFlags::DONTWAIT) {
                Ok(_) => {}
                // Among other errors: a server that was sent to is not there.
                Err(error) => {
                    if error == Errno::AGAIN {
                        self.ready[at] = 0;
                    }
                    continue;
                }
            }
            let Ok(hello) = Hello::decode(&self.buffer) else { continue };
            let sender = hello.from.filter(|&from| from < FIRST_CLIENT);
            if let Some(from) = sender.filter(|_| hello.protocol == protocol) {
                return Some(from);
            }
        }
        None
    }

    /// The message in the datagram that was taken last.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.get(HELLO_LENGTH..).unwrap_or_default()
    }
}
