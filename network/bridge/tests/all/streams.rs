//! Streams of the kernel's TCP between hosts, whose offloads are on: they arrive byte for byte.

use crate::network::{Network, address};
use crate::served::{Served, bridge};
use fulmar_namespaces::Namespace;
use fulmar_node::Random;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// A stream has so many bytes.
const LENGTH: usize = 256 << 20;
/// They are made and compared so many at once.
const BLOCK: usize = 1 << 20;
/// If a stream breaks, the test ends too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The next bytes of a stream.
fn fill(block: &mut [u8], random: &mut Random) {
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_be_bytes());
    }
}

/// Sends a stream from one host to another, which listens at its own address, and is called by another one, maybe.
pub(crate) fn stream(from: &Namespace, to: &Namespace, listen: Ipv4Addr, call: Ipv4Addr) {
    let listener = to.within(|| TcpListener::bind((listen, 0)).expect("a port"));
    let port = listener.local_addr().expect("bound").port();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            stream.set_read_timeout(Some(PATIENCE)).expect("it is not 0");
            let (mut expected, mut found, mut random) = (vec![0; BLOCK], vec![0; BLOCK], Random::new(1));
            for block in 0..LENGTH / BLOCK {
                fill(&mut expected, &mut random);
                stream.read_exact(&mut found).expect("all comes");
                assert!(found == expected, "other bytes came in block {block}");
            }
            stream.write_all(b"all").expect("it is sent");
        });
        let to = SocketAddr::from((call, port));
        let mut stream = from.within(|| TcpStream::connect_timeout(&to, PATIENCE).expect("it listens"));
        stream.set_write_timeout(Some(PATIENCE)).expect("it is not 0");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is not 0");
        let (mut block, mut random) = (vec![0; BLOCK], Random::new(1));
        for _ in 0..LENGTH / BLOCK {
            fill(&mut block, &mut random);
            stream.write_all(&block).expect("it is sent");
        }
        stream.read_exact(&mut [0; 3]).expect("all has come");
    });
    for host in [from, to] {
        let found =
            host.within(|| std::fs::read_to_string("/proc/thread-self/net/snmp").expect("Linux has it"));
        let mut lines = found.lines().filter(|line| line.starts_with("Tcp:"));
        let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
        let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
        assert!(pairs.any(|pair| pair == ("InCsumErrors", "0")), "{found}");
    }
}

#[test]
fn a_stream_arrives() {
    let served = Served::secure("stream", 2);
    served.client().add_flow("actions=normal");
    stream(served.network.host(1), served.network.host(2), address(2), address(2));
}

/// A wire between two ports of the switch carries tags.
pub(crate) fn tagged(test: &str) -> Served {
    let network = Network::new(test, 2);
    network.switch.ip(&["link", "add", "port3", "type", "veth", "peer", "name", "port4"]).expect("root may");
    for end in ["port3", "port4"] {
        network.switch.ip(&["link", "set", end, "addrgenmode", "none", "up"]).expect("root may");
    }
    let served = Served::new(network, vec![bridge(4)]);
    let mut client = served.client();
    for (port, trunk) in [(1, 3), (2, 4)] {
        client.add_flow(&format!(
            "in_port={port} actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:{trunk}"
        ));
        client.add_flow(&format!("in_port={trunk},dl_vlan=7 actions=pop_vlan,output:{port}"));
    }
    served
}

#[test]
fn a_stream_arrives_with_tags_pushed_and_popped() {
    let served = tagged("tagged");
    stream(served.network.host(1), served.network.host(2), address(2), address(2));
}

/// Address 9, which the first host calls, is none of a host: flows put that of the second in its place, and back.
pub(crate) fn translated(test: &str) -> Served {
    let served = Served::secure(test, 2);
    for (host, known, other) in [(1, 9, 2), (2, 1, 1)] {
        served.network.knows(host, address(known), other);
    }
    let (second, called) = (address(2), address(9));
    let mut client = served.client();
    client.add_flow(&format!("in_port=1,ip,nw_dst={called} actions=set_field:{second}->ip_dst,output:2"));
    client.add_flow(&format!("in_port=2,ip,nw_src={second} actions=set_field:{called}->ip_src,output:1"));
    served
}

#[test]
fn a_stream_arrives_at_another_address() {
    let served = translated("translated");
    stream(served.network.host(1), served.network.host(2), address(2), address(9));
}
