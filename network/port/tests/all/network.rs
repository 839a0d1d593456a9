//! Hosts as network namespaces, and one more for a switch between them. Needs `ip` (iproute2) and the rights of root.

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
        let name = format!("fulmar-port-{}-{name}", std::process::id());
        ip(&["netns", "add", &name]);
        Self(name)
    }

    pub(crate) fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0], arguments].concat());
    }

    /// Moves the thread that calls it here, for good: the sockets that it opens from now on are this host's.
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

/// Two hosts, `10.9.0.1` and `10.9.0.2`, also `fd09::1` and `fd09::2`, on interfaces `eth0` whose other ends are a switch's `port1`
/// and `port2`. Nothing but what a test sends is on the wire: no host looks for neighbours.
pub(crate) struct Network {
    pub(crate) switch: Namespace,
    pub(crate) hosts: [Namespace; 2],
}

pub(crate) const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

impl Network {
    pub(crate) fn new(test: &str) -> Self {
        let switch = Namespace::new(&format!("{test}-s"));
        let hosts = [1, 2].map(|number| {
            let host = Namespace::new(&format!("{test}-{number}"));
            let port = format!("port{number}");
            let (mac, other) = (format!("02:00:00:00:00:0{number}"), 3 - number);
            let link = ["link", "add", &port, "type", "veth", "peer", "name", "eth0", "address", &mac];
            switch.ip(&[&link[..], &["netns", &host.0]].concat());
            switch.ip(&["link", "set", &port, "addrgenmode", "none", "up"]);
            host.ip(&["link", "set", "eth0", "addrgenmode", "none", "up"]);
            host.ip(&["address", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"]);
            host.ip(&["address", "add", &format!("fd09::{number}/64"), "dev", "eth0", "nodad"]);
            let mac = format!("02:00:00:00:00:0{other}");
            for address in [format!("10.9.0.{other}"), format!("fd09::{other}")] {
                host.ip(&["neighbour", "add", &address, "lladdr", &mac, "dev", "eth0", "nud", "permanent"]);
            }
            host
        });
        Self { switch, hosts }
    }
}
