//! Links that lose all, and links that are down.

use crate::network::{Network, PAIR, SWITCHED};
use std::net::{Ipv4Addr, UdpSocket};

const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A number of the first link, from its first end to the second.
fn count(shown: &serde_json::Value, what: &str) -> u64 {
    shown["links"][0]["counts"][0][what].as_u64().expect("a number")
}

#[test]
fn nothing_passes_a_link_that_loses_all() {
    let network = Network::up(PAIR);
    let at_b = network.on("b", || UdpSocket::bind((B, 0)).expect("a port"));
    let at_a = network.on("a", || UdpSocket::bind("10.0.0.1:0").expect("a port"));
    let send =
        |text: &str| at_a.send_to(text.as_bytes(), at_b.local_addr().expect("bound")).expect("it is sent");
    // From here on both know each other's hardware address.
    assert!(network.pings("a", B));
    network.must(&["link", "a", "b", "loss=1"]);
    let before = count(&network.show(), "lost");
    for _ in 0..20 {
        send("lost");
    }
    network.wait_until("all are lost", |shown| count(shown, "lost") >= before + 20);
    network.must(&["link", "a", "b", "loss=0"]);
    send("arrives");
    let mut text = [0; 16];
    let (length, _) = at_b.recv_from(&mut text).expect("it comes");
    assert_eq!(&text[..length], b"arrives");
}

/// Whether a host sees that its cable is out.
fn is_unplugged(network: &Network) -> bool {
    network.must(&["exec", "a", "--", "ip", "link", "show", "dev", "eth0"]).contains("NO-CARRIER")
}

#[test]
fn links_go_down_and_up_again() {
    for (topology, other) in [(PAIR, "b"), (SWITCHED, "s1")] {
        let network = Network::up(topology);
        assert!(network.pings("a", B));
        network.must(&["link", "a", other, "down"]);
        network.wait_until("the host sees it", |_| is_unplugged(&network));
        assert!(network.must(&["show"]).contains(&format!("link a {other}: down\n")));
        let arrived = count(&network.show(), "arrived");
        let socket = network.on("a", || UdpSocket::bind("10.0.0.1:0").expect("a port"));
        // It may be refused.
        let _ = socket.send_to(b"lost", (B, 9));
        assert_eq!(count(&network.show(), "arrived"), arrived);
        network.must(&["link", "a", other, "up"]);
        network.wait_until("the host sees it", |_| !is_unplugged(&network));
        assert!(network.pings("a", B));
    }
}

#[test]
fn a_link_can_be_down_from_the_start() {
    let network = Network::up(&PAIR.replace("ends =", "up = false\nends ="));
    network.wait_until("the host sees it", |_| is_unplugged(&network));
    network.must(&["link", "b", "a", "up"]);
    assert!(network.pings("a", B));
}

#[test]
fn what_cannot_be_changed_is_said() {
    let network = Network::up(PAIR);
    let wrong = |arguments: &[&str]| {
        let done = network.run(arguments);
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).expect("text")
    };
    assert_eq!(
        wrong(&["link", "a", "c", "up"]),
        "Error: there is no link between \"a\" and \"c\": `fulmar net show` lists links\n"
    );
    assert_eq!(
        wrong(&["link", "a", "b", "loss=2"]),
        "Error: \"loss=2\" is not right; write as in loss = 0.01\n"
    );
    assert!(wrong(&["link", "a", "b", "loss=1", "speed=2"]).contains("write one of up, rate"));
    // Nothing was done half.
    assert_eq!(network.show()["links"][0]["quality"]["loss"], 0.0);
}
