//! Hosts as network namespaces, and one more for a switch between them.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;

/// A namespace, which goes with this value, and its interfaces with it.
pub(crate) struct Namespace(String);

impl Namespace {
    pub(crate) fn new(name: &str) -> Self {
        // No other process that lives has this number, and tests have names.
        let name = format!("fulmar-bridge-{}-{name}", std::process::id());
        ip(&["netns", "add", &name]);
        let made = Self(name);
        made.ip(&["link", "set", "lo", "up"]);
        made
    }

    pub(crate) fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0], arguments].concat());
    }

    /// Moves the thread that calls it here, for good: what it opens and starts from now on is this host's.
    pub(crate) fn enter(&self) {
        let link = File::open(format!("/run/netns/{}", self.0)).expect("`ip` has made it");
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
    }

    /// Does something there.
    pub(crate) fn within<T: Send>(&self, does: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                does()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).output();
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("`ip` is there");
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {}: {}", arguments.join(" "), why.trim());
}

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
        let mut network = Self { switch: Namespace::new(&format!("{test}-s")), hosts: Vec::new() };
        for number in 1..=hosts {
            network.hosts.push(Namespace::new(&format!("{test}-{number}")));
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
        self.switch.ip(&[&link[..], &["netns", &host.0]].concat());
        self.switch.ip(&["link", "set", &port, "addrgenmode", "none", "up"]);
        host.ip(&["link", "set", "eth0", "addrgenmode", "none", "up"]);
        host.ip(&["address", "add", &format!("{}/24", address(number)), "dev", "eth0"]);
    }

    /// A network of its own between two namespaces, for tunnels: `under0` with addresses that [`outer`] says.
    pub(crate) fn underlay(one: &Namespace, other: &Namespace) {
        one.ip(&["link", "add", "under0", "type", "veth", "peer", "name", "under0", "netns", &other.0]);
        for (number, end) in (1..).zip([one, other]) {
            end.ip(&["address", "add", &format!("{}/24", outer(number)), "dev", "under0"]);
            end.ip(&["link", "set", "under0", "addrgenmode", "none", "up"]);
        }
    }

    /// From now on a host need not ask where this address is: at that of another host.
    pub(crate) fn knows(&self, host: u8, address: Ipv4Addr, other: u8) {
        let known = ["neighbour", "replace", &address.to_string(), "lladdr", &mac(other), "dev", "eth0"];
        self.host(host).ip(&[&known[..], &["nud", "permanent"]].concat());
    }
}
