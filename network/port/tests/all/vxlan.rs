//! Frames through tunnels.

use crate::network::{ADDRESSES, Network};
use fulmar_port::offload::{Checksum, Kind, Segmentation};
use fulmar_port::vxlan::{Arrivals, Claim, Claims, Departed, Departures, Dropped, Origin, Outer, Vtep};
use fulmar_port::{Error, Offload};
use rustix::event::{PollFd, PollFlags, poll};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

const UDP_PORT: u16 = 4789;

/// What is outside, from the first host to the second.
const OUTER: Outer = Outer {
    network: 42,
    remote: ADDRESSES[1],
    local: Ipv4Addr::UNSPECIFIED,
    tos: 0,
    ttl: 64,
    is_whole: true,
};

/// A switch at a host, whose tunnels take all that comes.
struct End {
    arrivals: Arrivals,
    departures: Departures,
    claims: Claims,
}

impl End {
    fn of(vtep: &Arc<Vtep>) -> Self {
        let (arrivals, claims) = vtep.join().expect("a signal");
        Self { arrivals, departures: vtep.departures(), claims }
    }

    fn takes(self, claim: Claim, port: u32) -> Self {
        self.claims.admit(claim, port).expect("nobody has");
        self
    }

    /// Waits for so many frames.
    fn receive(&mut self, count: usize) -> Vec<(Origin, Vec<u8>)> {
        let mut frames = Vec::new();
        while frames.len() < count {
            let sources = self.arrivals.sources();
            let mut fds = sources.each_ref().map(|source| PollFd::new(source, PollFlags::IN));
            poll(&mut fds, None).expect("it waits");
            self.arrivals.receive(64, |origin, frame| frames.push((*origin, frame.bytes().to_vec())));
        }
        frames
    }
}

/// Hosts of which the ends of their only link are a cable: `port1` and `port2` are joined by a bridge of the kernel.
fn wired(test: &str) -> Network {
    let network = Network::new(test);
    network.switch.ip(&["link", "add", "wire", "type", "bridge"]).expect("root may");
    for port in ["port1", "port2"] {
        network.switch.ip(&["link", "set", port, "master", "wire"]).expect("root may");
    }
    network.switch.ip(&["link", "set", "wire", "up"]).expect("root may");
    network
}

fn vteps(network: &Network) -> [Arc<Vtep>; 2] {
    network.hosts.each_ref().map(|host| host.within(|| Vtep::open(UDP_PORT).expect("it is free")))
}

fn ends(network: &Network) -> [End; 2] {
    vteps(network).map(|vtep| End::of(&vtep))
}

#[test]
fn frames_go_through_in_order() {
    let network = wired("vxlan-order");
    let [mut one, two] = ends(&network);
    let mut two = two.takes(Claim::default(), 7);
    // Of many sizes: some share a train, some end one.
    let frames: Vec<Vec<u8>> = (0..200u8).map(|number| vec![number; 60 + usize::from(number / 3)]).collect();
    for frame in &frames {
        one.departures.send(1, &OUTER, 5, frame, Offload::NONE);
    }
    let (mut went, mut bytes) = (0, 0);
    for departed in one.departures.flush() {
        assert!(departed.went && departed.port == 1, "{departed:?}");
        (went, bytes) = (went + departed.frames, bytes + departed.bytes);
    }
    assert_eq!((went, bytes), (200, frames.iter().map(|frame| frame.len() as u64).sum()));
    let origin = Origin { port: 7, network: 42, remote: ADDRESSES[0], local: ADDRESSES[1] };
    let expected: Vec<_> = frames.into_iter().map(|frame| (origin, frame)).collect();
    assert!(two.receive(200) == expected);
    assert_eq!(two.claims.vtep().dropped(), Dropped::default());
}

#[test]
fn what_is_open_is_finished_first() {
    let network = wired("vxlan-open");
    let [mut one, two] = ends(&network);
    let mut two = two.takes(Claim::default(), 7);
    // A TCP segment of 30,000 bytes, to be cut into pieces of 1400.
    let mut key = fulmar_packet::FlowKey::default();
    key.set(fulmar_packet::Field::ETH_TYPE, fulmar_packet::ethernet::IPV4.into());
    key.set(fulmar_packet::Field::IP_PROTOCOL, fulmar_packet::ip::TCP.into());
    let frame = fulmar_packet::build(&key, &[3; 30_000]);
    let offload = Offload {
        checksum: Some(Checksum { start: 34, offset: 16 }),
        segmentation: Some(Segmentation { kind: Kind::TcpV4, ecn: false, size: 1400, header: 54 }),
    };
    let mut expected = Vec::new();
    let cut = |piece: &[u8]| expected.push(piece.to_vec());
    fulmar_port::offload::finish(&frame, offload, &mut Vec::new(), cut).expect("it can be cut");
    one.departures.send(1, &OUTER, 0, &frame, offload);
    let departed: Vec<_> = one.departures.flush().map(|departed| (departed.frames, departed.went)).collect();
    assert_eq!(departed, [(22, true)], "all at once");
    let received: Vec<_> = two.receive(22).into_iter().map(|(_, frame)| frame).collect();
    assert!(received == expected);
    // One that cannot be.
    one.departures.send(1, &OUTER, 0, &frame[..40], offload);
    let lost = Departed { port: 1, frames: 1, bytes: 40, went: false };
    assert_eq!(one.departures.flush().collect::<Vec<_>>(), [lost]);
}

#[test]
fn what_is_too_long_is_cut_or_lost() {
    let network = wired("vxlan-long");
    let [mut one, two] = ends(&network);
    let mut two = two.takes(Claim::default(), 7);
    // With what is outside it has 1550 bytes.
    for is_whole in [true, false] {
        for number in 0..3 {
            one.departures.send(1, &Outer { is_whole, ..OUTER }, 0, &[number; 1514], Offload::NONE);
        }
    }
    let departed: Vec<_> = one.departures.flush().map(|departed| (departed.frames, departed.went)).collect();
    assert_eq!(departed, [(1, false), (1, false), (1, false), (1, true), (1, true), (1, true)]);
    let received: Vec<_> = two.receive(3).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(received, [[0; 1514], [1; 1514], [2; 1514]]);
}

#[test]
fn what_is_malformed_or_nobodys_is_dropped_and_counted() {
    let network = wired("vxlan-bad");
    let [_, two] = ends(&network);
    let mut two = two.takes(Claim { network: Some(42), ..Claim::default() }, 7);
    let socket = network.hosts[0].within(|| UdpSocket::bind("0.0.0.0:0").expect("a port"));
    let header = fulmar_packet::vxlan::header;
    let whole = |number: u32| [&header(number)[..], &[9; 60]].concat();
    let datagrams = [
        vec![],
        vec![0xff; 7],
        header(42).to_vec(),
        [&header(42)[..], &[9; 13]].concat(),
        [&[0; 8][..], &[9; 60]].concat(),
        whole(43),
        whole(42),
    ];
    for datagram in &datagrams {
        socket.send_to(datagram, (ADDRESSES[1], UDP_PORT)).expect("it is sent");
    }
    let received = two.receive(1);
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].0.network, &received[0].1), (42, &vec![9; 60]));
    let expected = Dropped { malformed: 5, unclaimed: 1, ..Dropped::default() };
    assert_eq!(two.claims.vtep().dropped(), expected);
}

/// Two switches of a process, whichever of them receives first.
#[test]
fn switches_share_a_port() {
    let network = wired("vxlan-shared");
    let [here, there] = vteps(&network);
    let again = network.hosts[1].within(|| Vtep::open(UDP_PORT));
    assert!(matches!(again, Err(Error::Refused { .. })), "the port is taken");
    let mut one = End::of(&here);
    let mut two = End::of(&there).takes(Claim { network: Some(2), ..Claim::default() }, 7);
    let mut three = End::of(&there).takes(Claim { network: Some(3), ..Claim::default() }, 7);
    let same = three.claims.admit(Claim { network: Some(2), ..Claim::default() }, 8);
    assert!(same.is_err_and(|why| why.to_string().contains("key 2, remote_ip any, local_ip any")));
    for number in 0..10 {
        for network in [2, 3] {
            one.departures.send(1, &Outer { network, ..OUTER }, 0, &[number; 60], Offload::NONE);
        }
    }
    assert!(one.departures.flush().all(|departed| departed.went));
    for end in [&mut two, &mut three] {
        let numbers: Vec<u8> = end.receive(10).iter().map(|(_, frame)| frame[0]).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<u8>>());
    }
    drop(two);
    one.departures.send(1, &Outer { network: 2, ..OUTER }, 0, &[1; 60], Offload::NONE);
    one.departures.send(1, &Outer { network: 3, ..OUTER }, 0, &[2; 60], Offload::NONE);
    assert!(one.departures.flush().all(|departed| departed.went));
    assert_eq!(three.receive(1)[0].1, [2; 60]);
    assert_eq!(three.claims.vtep().dropped(), Dropped { unclaimed: 1, ..Dropped::default() });
}
