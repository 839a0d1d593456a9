//! One datagram for a group, and a stream for what does not fit.

use crate::fixtures::{ONE, PROTOCOL, Running, THREE, TWO};
use crate::processes::{Ask, Caller, Echo};
use crate::raw;
use fulmar_node::{Lsn, MulticastId, Random};
use fulmar_transport::{Address, Datagrams, LARGEST_DATAGRAM, Limits, Server, User};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// Passes what a caller tells on to the test.
struct Told(Sender<Vec<Vec<u8>>>);

impl User<Caller> for Told {
    fn event(&mut self, echoed: Vec<Vec<u8>>, _requests: &mut Vec<Ask>) {
        // A test that has seen enough no longer listens.
        let _ = self.0.send(echoed);
    }
}

#[test]
fn one_datagram_reaches_a_group_and_what_does_not_fit_goes_by_stream() {
    let sockets = [ONE, TWO, THREE].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let places = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
    let all = MulticastId(1);
    // Naming the loopback interface needs no route and no privilege.
    let loopback = Ipv4Addr::LOCALHOST;
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 1), places[0].port());
    let mut datagrams = sockets.map(|socket| Datagrams::new(socket).unwrap()).into_iter();
    let mut first = datagrams.next().unwrap();
    first.group(all, group, loopback, 0).unwrap();

    let mut caller =
        Server::new(ONE, PROTOCOL, Limits::default(), Caller::new([TWO, THREE]), Lsn(0)).unwrap();
    caller.datagrams(first).unwrap();
    caller.group(all, [TWO, THREE]);
    let mut echoes = Vec::new();
    for (name, mut datagrams) in [TWO, THREE].into_iter().zip(datagrams) {
        datagrams.join(group, loopback).unwrap();
        datagrams.address(ONE, places[0]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: Address = listener.local_addr().unwrap().into();
        let mut echo = Server::new(name, PROTOCOL, Limits::default(), Echo::default(), Lsn(0)).unwrap();
        echo.listen(listener).unwrap();
        echo.datagrams(datagrams).unwrap();
        caller.address(name, address.clone());
        echoes.push(Running::run(echo, address));
    }
    let handle = caller.handle();
    let (sender, told) = mpsc::channel();
    let thread = thread::spawn(move || caller.run(&mut (), &mut Told(sender)).unwrap());

    // Whoever sends noise is not answered, and no noise stops a server; it is counted.
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = Random::new(5);
    for _ in 0..100 {
        let mut bytes = raw::hello()[4..].to_vec();
        bytes.truncate(random.index(60));
        noise.send_to(&bytes, places[1]).unwrap();
    }
    noise.send_to(b"noise", places[0]).unwrap();

    let longest = LARGEST_DATAGRAM - 36 - 2 - 9;
    let body = vec![1; longest];
    handle.request(Ask::multicast(all, &body));
    assert_eq!(told.recv().unwrap(), [body]);
    let counters = handle.counters().unwrap();
    assert_eq!((counters.messages_sent, counters.messages_received, counters.connections), (1, 2, 0));
    assert_eq!(counters.malformed, 1);

    let body = vec![1; longest + 1];
    handle.request(Ask::multicast(all, &body));
    assert_eq!(told.recv().unwrap(), [body]);
    let counters = handle.counters().unwrap();
    assert_eq!((counters.messages_sent, counters.messages_received, counters.connections), (3, 4, 2));
    handle.stop();
    thread.join().unwrap();
    echoes.into_iter().for_each(Running::end);
}
