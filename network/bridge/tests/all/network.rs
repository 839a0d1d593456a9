//! Hosts as network namespaces, and one more for a switch between them.

use fulmar_namespaces::Namespace;
use std::net::Ipv4Addr;

/// Hosts that count from 1: each has the address that [`address`] says on `eth0`, whose other end is the switch's `port1`, `port2`, ….
pub(crate) struct Network {
    pub(crate) switch: Namespace,
    hosts: Vec<Namespace>,
}

/// A host's address.
pub(crate) fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, host)
}

/// The address of one of two ends of a network for tunnels.
pub(crate) fn outer(end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 8, 0, end)
}

/// A host's Ethernet address.
pub(crate) fn mac(host: u8) -> String {
    format!("02:00:00:00:00:{host:02x}")
}

impl Network {
    pub(crate) fn new(test: &str, hosts: u8) -> Self {
        let mut network =
            Self { switch: Namespace::new(&format!("{test}-s")).expect("root may"), hosts: Vec::new() };
        for number in 1..=hosts {
            network.hosts.push(Namespace::new(&format!("{test}-{number}")).expect("root may"));
            network.link(number);
        }
        network
    }

    pub(crate) fn host(&self, number: u8) -> &Namespace {
        &self.hosts[usize::from(number) - 1]
    }

    /// Makes a host's interface and the switch's end of it.
    pub(crate) fn link(&self, number: u8) {
        let (host, port) = (self.host(number), format!("port{number}"));
        let link = ["link", "add", &port, "type", "veth", "peer", "name", "eth0", "address", &mac(number)];
        self.switch.ip(&[&link[..], &["netns", host.name()]].concat()).expect("root may");
        self.switch.ip(&["link", "set", &port, "addrgenmode", "none", "up"]).expect("root may");
        host.ip(&["link", "set", "eth0", "addrgenmode", "none", "up"]).expect("root may");
        host.ip(&["address", "add", &format!("{}/24", address(number)), "dev", "eth0"]).expect("root may");
    }

    /// A network of its own between two namespaces, for tunnels: `under0` with addresses that [`outer`] says.
    pub(crate) fn underlay(one: &Namespace, other: &Namespace) {
        one.ip(&["link", "add", "under0", "type", "veth", "peer", "name", "under0", "netns", other.name()])
            .expect("root may");
        for (number, end) in (1..).zip([one, other]) {
            end.ip(&["address", "add", &format!("{}/24", outer(number)), "dev", "under0"]).expect("root may");
            end.ip(&["link", "set", "under0", "addrgenmode", "none", "up"]).expect("root may");
        }
    }

    /// From now on a host need not ask where this address is: at that of another host.
    pub(crate) fn knows(&self, host: u8, address: Ipv4Addr, other: u8) {
        let known = ["neighbour", "replace", &address.to_string(), "lladdr", &mac(other), "dev", "eth0"];
        self.host(host).ip(&[&known[..], &["nud", "permanent"]].concat()).expect("root may");
    }
}
