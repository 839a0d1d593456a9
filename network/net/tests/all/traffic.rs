//! Hosts that reach each other.

use crate::network::{Network, PAIR, SWITCHED};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The second host sends bytes to the first, by its kernel's TCP.
fn send(network: &Network, to: IpAddr, bytes: usize) {
    let listener = network.on("b", || TcpListener::bind(SocketAddr::new(to, 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    let says: Vec<u8> = (0..=250).cycle().take(bytes).collect();
    thread::scope(|scope| {
        scope.spawn(|| listener.accept().expect("somebody comes").0.write_all(&says).expect("it is sent"));
        let mut heard = Vec::new();
        let mut stream = network.on("a", || TcpStream::connect(at).expect("it listens"));
        stream.read_to_end(&mut heard).expect("all comes");
        assert!(heard == says, "other bytes came: {} of {bytes}", heard.len());
    });
}

#[test]
fn hosts_reach_each_other_on_a_link_and_through_a_switch() {
    for topology in [PAIR, SWITCHED] {
        let network = Network::up(topology);
        assert!(network.pings("a", B));
        send(&network, B.into(), 8 << 20);
        send(&network, "fd00::2".parse().expect("an address"), 8 << 20);
    }
}

#[test]
fn bad_links_do_not_break_what_they_carry() {
    let network = Network::up(PAIR);
    let quality = [
        "delay=200us",
        "jitter=100us",
        "loss=1%",
        "duplicate=2%",
        "reorder=2%",
        "rate=400Mbit",
        "queue=64KiB",
    ];
    network.must(&[&["link", "b", "a"], &quality[..]].concat());
    send(&network, B.into(), 2 << 20);
    let counts = network.show();
    let lost = counts["links"][0]["counts"][1]["lost"].as_u64().expect("a number");
    // Of some 1400 frames; with none lost, they were not cut.
    assert!(lost > 0, "{counts}");
}

#[test]
fn switches_have_flows_and_sockets() {
    let flows = "name = \"s1\"\nfail-mode = \"secure\"\nflows = [\"in_port=1 actions=output:2\", \"in_port=2 actions=output:1\"]";
    let network = Network::up(&SWITCHED.replace("name = \"s1\"", flows));
    assert!(network.pings("a", B));
    let shown = network.show();
    let management = shown["switches"][0]["management"].as_str().expect("a path");
    let mut hello = [0; 8];
    UnixStream::connect(management).expect("it listens").read_exact(&mut hello).expect("it speaks first");
    assert_eq!(hello[..2], [4, 0]);
    assert_eq!(shown["switches"][0]["ports"], serde_json::json!(["a", "b"]));
}

#[test]
fn networks_do_not_meet() {
    let networks = [Network::up(PAIR), Network::up(SWITCHED)];
    assert!(networks.iter().all(|network| network.pings("a", B)));
    let [first, second] = networks;
    drop(first);
    assert!(second.pings("a", B));
}
