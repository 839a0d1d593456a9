//! Streams of the kernel's TCP between hosts, whose offloads are on: they arrive byte for byte.

use crate::network::{Namespace, Network, address, mac};
use crate::served::{Served, bridge};
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
fn stream(from: &Namespace, to: &Namespace, listen: Ipv4Addr, call: Ipv4Addr) {
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

/// Each host does without asking where the other one is.
fn acquaint(served: &Served) {
    served.network.knows(1, address(2), 2);
    served.network.knows(2, address(1), 1);
}

#[test]
fn a_stream_arrives() {
    let served = Served::secure("stream", 2);
    served.client().add_flow("actions=normal");
    stream(served.network.host(1), served.network.host(2), address(2), address(2));
}

/// A wire between two ports of the switch carries tags.
#[test]
fn a_stream_arrives_with_tags_pushed_and_popped() {
    let network = Network::new("tagged", 2);
    network.switch.ip(&["link", "add", "port3", "type", "veth", "peer", "name", "port4"]);
    for end in ["port3", "port4"] {
        network.switch.ip(&["link", "set", end, "addrgenmode", "none", "up"]);
    }
    let served = Served::new(network, vec![bridge(4)]);
    let mut client = served.client();
    for (port, trunk) in [(1, 3), (2, 4)] {
        client.add_flow(&format!(
            "in_port={port} actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:{trunk}"
        ));
        client.add_flow(&format!("in_port={trunk},dl_vlan=7 actions=pop_vlan,output:{port}"));
    }
    stream(served.network.host(1), served.network.host(2), address(2), address(2));
}

/// The address that is called is none of a host: flows put another in its place, both ways.
#[test]
fn a_stream_arrives_at_another_address() {
    let served = Served::secure("translated", 2);
    acquaint(&served);
    served.network.knows(1, address(9), 2);
    let mut client = served.client();
    let call = format!(
        "in_port=1,ip,nw_dst={} actions=set_field:{}->ip_dst,set_field:{}->eth_dst,output:2",
        address(9),
        address(2),
        mac(2)
    );
    client.add_flow(&call);
    client.add_flow(&format!(
        "in_port=2,ip,nw_src={} actions=set_field:{}->ip_src,output:1",
        address(2),
        address(9)
    ));
    stream(served.network.host(1), served.network.host(2), address(2), address(9));
}
