//! A port on an interface.

use crate::network::{ADDRESSES, Network};
use crate::wire::Wire;
use fulmar_node::Random;
use fulmar_port::{Packet, Port};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

fn open(network: &Network) -> [Port; 2] {
    network.switch.enter();
    ["port1", "port2"].map(|name| Port::from(Packet::open(name).expect("it is there")))
}

fn any(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect()
}

/// Two hosts that send each other bytes at once, by their kernels' TCP.
fn exchange(network: &Network, to: IpAddr) {
    let [sent, answered] = [any(1, 8 << 20), any(2, 8 << 20)];
    let talk = |mut stream: TcpStream, says: &[u8], hears: &[u8]| {
        thread::scope(|scope| {
            let mut writer = stream.try_clone().expect("another file");
            scope.spawn(move || writer.write_all(says).expect("it is sent"));
            let mut heard = vec![0; hears.len()];
            stream.read_exact(&mut heard).expect("all comes");
            assert!(heard == hears, "other bytes came");
        });
    };
    let listener = network.hosts[1].within(|| TcpListener::bind(SocketAddr::new(to, 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    thread::scope(|scope| {
        scope.spawn(|| talk(listener.accept().expect("somebody comes").0, &answered, &sent));
        let stream = network.hosts[0].within(|| TcpStream::connect(at).expect("it listens"));
        talk(stream, &sent, &answered);
    });
}

#[test]
fn tcp_passes_in_segments_of_64_kib() {
    let network = Network::new("tcp");
    for to in [ADDRESSES[1].into(), IpAddr::from(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2))] {
        let mut longest = [0; 2];
        thread::scope(|scope| {
            let longest = &mut longest;
            let see = |side: usize, frame: &fulmar_port::Frame<'_>| {
                longest[side] = longest[side].max(frame.bytes().len());
                assert!(frame.headroom() >= 64);
            };
            let _wire = Wire::between(scope, || open(&network), see);
            exchange(&network, to);
        });
        assert!(longest.iter().all(|longest| *longest > 32_768), "{longest:?}");
    }
}
