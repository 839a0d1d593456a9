//! VXLAN tunnels between switches, and to a kernel.

use crate::network::{Network, address, outer};
use crate::served::{Served, bridge};
use crate::streams::stream;
use fulmar_bridge::BridgeConfig;
use fulmar_namespaces::Namespace;
use fulmar_ovsdb::{Atom, Datum};
use std::net::UdpSocket;

/// What fits into a tunnel whose way has an MTU of 1500: without the outer headers of IP, UDP and VXLAN, and that of Ethernet inside.
pub(crate) const MTU: &str = "1450";

impl Served {
    /// An interface of type `vxlan` joins `br0`, and works or has an error.
    pub(crate) fn add_tunnel(&self, name: &str, options: &[(&str, &str)]) {
        let added = self.daemon.database().transact(|draft, chance| {
            let interface = draft.insert("Interface", chance);
            draft.set("Interface", interface, "name", name)?;
            draft.set("Interface", interface, "type", "vxlan")?;
            draft.set("Interface", interface, "options", Datum::map(options.iter().copied()))?;
            let port = draft.insert("Port", chance);
            draft.set("Port", port, "name", name)?;
            draft.set("Port", port, "interfaces", Datum::set([interface]))?;
            let (bridge, mut ports) = draft
                .rows("Bridge")
                .find(|row| row.get("name").string() == Some("br0"))
                .map(|row| (row.uuid(), row.get("ports").uuids().collect::<Vec<_>>()))
                .expect("it is there");
            ports.push(port);
            draft.set("Bridge", bridge, "ports", Datum::set(ports))
        });
        added.expect("it can be written");
        self.until_interface(name, "ofport", |number| number.integer().is_some());
    }

    /// Waits until the database tells that each of these was counted of an interface.
    pub(crate) fn until_counted(&self, interface: &str, names: &[&str]) {
        self.until_interface(interface, "statistics", |told| {
            names.iter().all(|name| told.get(name).is_some_and(|count| *count != Atom::Integer(0)))
        });
    }

    pub(crate) fn column(&self, interface: &str, column: &str) -> Datum {
        self.daemon.database().read(|database| {
            let mut rows = database.rows("Interface");
            let row = rows.find(|row| row.get("name").string() == Some(interface));
            row.expect("it is there").get(column).clone()
        })
    }
}

/// Switches `br0`, each with one host, of address 1 and 2, and a network between them for tunnels.
pub(crate) fn two(test: &str) -> [Served; 2] {
    let served = [1, 2].map(|number| {
        let network = Network::new(&format!("{test}{number}"), number);
        network.host(number).ip(&["link", "set", "eth0", "mtu", MTU]).expect("root may");
        let ports = vec![format!("port{number}")];
        Served::new(network, vec![BridgeConfig { ports, fail_mode: None, ..bridge(0) }])
    });
    Network::underlay(&served[0].network.switch, &served[1].network.switch);
    served
}

/// A kernel's VXLAN device with address 2, at the other end of the switch's network for tunnels.
pub(crate) fn kernel(test: &str, served: &Served, key: &str) -> Namespace {
    let kernel = Namespace::new(&format!("{test}-k")).expect("root may");
    Network::underlay(&served.network.switch, &kernel);
    let device = ["link", "add", "vx0", "type", "vxlan", "id", key, "dstport", "4789"];
    kernel
        .ip(&[&device[..], &["remote", &outer(1).to_string(), "dev", "under0"]].concat())
        .expect("root may");
    kernel.ip(&["address", "add", &format!("{}/24", address(2)), "dev", "vx0"]).expect("root may");
    kernel.ip(&["link", "set", "vx0", "addrgenmode", "none", "mtu", MTU, "up"]).expect("root may");
    kernel
}

#[test]
fn a_stream_arrives_through_a_tunnel_between_switches() {
    let served = two("vxlan");
    for (at, other) in [(0, 2), (1, 1)] {
        served[at].add_tunnel("vx0", &[("remote_ip", &outer(other).to_string()), ("key", "42")]);
    }
    let [one, two] = &served;
    stream(one.network.host(1), two.network.host(2), address(2), address(2));
    stream(two.network.host(2), one.network.host(1), address(1), address(1));
    one.until_counted("vx0", &["rx_packets", "tx_packets"]);
    assert_eq!(one.column("vx0", "link_state").string(), Some("up"));
}

#[test]
fn a_stream_arrives_through_a_tunnel_to_a_kernel() {
    let network = Network::new("vxlan-kernel", 1);
    network.host(1).ip(&["link", "set", "eth0", "mtu", MTU]).expect("root may");
    let served = Served::new(network, vec![BridgeConfig { fail_mode: None, ..bridge(1) }]);
    let kernel = kernel("vxlan-kernel", &served, "42");
    served.add_tunnel("vx0", &[("remote_ip", &outer(2).to_string()), ("key", "42")]);
    stream(served.network.host(1), &kernel, address(2), address(2));
    stream(&kernel, served.network.host(1), address(1), address(1));
}

/// What comes to a tunnel's UDP port and is none of its business changes nothing, and is counted.
#[test]
fn what_is_no_tunnels_is_dropped_and_counted() {
    let network = Network::new("vxlan-stray", 1);
    let stranger = Namespace::new("vxlan-stray-x").expect("root may");
    Network::underlay(&network.switch, &stranger);
    let served = Served::new(network, vec![bridge(1)]);
    served.client().add_flow("actions=all");
    served.add_tunnel("vx0", &[("remote_ip", "10.8.0.9")]);
    let socket = stranger.within(|| UdpSocket::bind("0.0.0.0:0").expect("a port"));
    let whole = [&fulmar_packet::vxlan::header(0)[..], &[9; 60]].concat();
    for datagram in [&[0xff; 5][..], &[0; 70], &whole] {
        socket.send_to(datagram, (outer(1), 4789)).expect("it is sent");
    }
    let asked = || fulmar_bridge::ask(&served.path("ctl.sock"), "dpctl/show", &[]).expect("it answers");
    // They have been sent, and are taken with the next batch.
    while !asked().contains("tunnels at UDP port 4789: dropped malformed:2 unclaimed:1 congested:0 late:0") {
        std::thread::yield_now();
    }
    assert_eq!(served.column("vx0", "error").string(), None);
}

#[test]
fn a_tunnel_that_cannot_be_says_why() {
    let served = Served::secure("vxlan-bad", 1);
    let error = |name: &str| served.column(name, "error").string().unwrap_or_default().to_owned();
    served.add_tunnel("vx0", &[("key", "5")]);
    assert_eq!(error("vx0"), "vx0: a tunnel needs options:remote_ip=ADDRESS");
    served.add_tunnel("vx1", &[("remote_ip", "10.0.0.2")]);
    assert_eq!(error("vx1"), "");
    served.add_tunnel("vx2", &[("remote_ip", "10.0.0.2")]);
    assert!(error("vx2").contains("another tunnel takes the same datagrams (key 0, remote_ip 10.0.0.2"));
    assert_eq!(served.column("vx2", "ofport").integer(), Some(-1));
    let taken = served.network.switch.within(|| UdpSocket::bind("0.0.0.0:8472").expect("it is free"));
    served.add_tunnel("vx3", &[("remote_ip", "10.0.0.2"), ("dst_port", "8472")]);
    assert!(error("vx3").contains("UDP port 8472"), "{}", error("vx3"));
    drop(taken);
    served.until_interface("vx3", "ofport", |number| number.integer().is_some_and(|number| number > 0));
    assert_eq!(error("vx3"), "");
}
