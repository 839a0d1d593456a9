//! Hosts on one Ethernet: network namespaces on a bridge that floods multicasts. Needs `ip` (iproute2) and the rights of root.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;

/// A namespace, which goes with this value, and its interfaces with it.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Result<Self, String> {
        // No other process that lives has this number.
        let name = format!("fulmar-{}-{name}", std::process::id());
        ip(&["netns", "add", &name])?;
        Ok(Self(name))
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.0], arguments].concat())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let failed = |why: String| format!("ip {}: {why}", arguments.join(" "));
    let done = Command::new("ip").args(arguments).output().map_err(|why| failed(why.to_string()))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&done.stderr).trim().into())),
    }
}

/// A bridge and what is plugged into it.
pub(crate) struct Network {
    bridge: Namespace,
}

impl Network {
    /// An empty one. An error says why there can be none here.
    pub(crate) fn new() -> Result<Self, String> {
        let bridge = Namespace::new("bridge")?;
        // With snooping it would wait for somebody to ask who listens.
        bridge.ip(&["link", "add", "bridge", "type", "bridge", "mcast_snooping", "0"])?;
        bridge.ip(&["link", "set", "bridge", "up"])?;
        Ok(Self { bridge })
    }

    /// Plugs in another host, with a number that none has yet.
    pub(crate) fn host(&self, number: u8) -> Result<Host, String> {
        let namespace = Namespace::new(&number.to_string())?;
        let (address, port) = (Ipv4Addr::new(10, 0, 0, number), format!("port{number}"));
        let bridge = &self.bridge.0;
        namespace.ip(&["link", "add", "eth0", "type", "veth", "peer", "name", &port, "netns", bridge])?;
        self.bridge.ip(&["link", "set", &port, "master", "bridge", "up"])?;
        namespace.ip(&["address", "add", &format!("{address}/24"), "dev", "eth0"])?;
        namespace.ip(&["link", "set", "lo", "up"])?;
        namespace.ip(&["link", "set", "eth0", "up"])?;
        Ok(Host { namespace, address })
    }
}

/// One host.
pub(crate) struct Host {
    namespace: Namespace,
    pub(crate) address: Ipv4Addr,
}

impl Host {
    /// Moves the thread that calls it here, for good: the sockets that it opens from now on are this host's.
    pub(crate) fn enter(&self) {
        let link = File::open(format!("/run/netns/{}", self.namespace.0)).expect("`ip` has made it");
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
    }

    /// How many multicasts the host has received and sent over IPv4, as the system counts them.
    pub(crate) fn multicasts(&self) -> (u64, u64) {
        let read = || {
            self.enter();
            std::fs::read_to_string("/proc/thread-self/net/netstat").expect("Linux counts")
        };
        // On a thread of its own, since it cannot go back.
        let counts = std::thread::scope(|scope| scope.spawn(read).join().expect("it is read"));
        let mut lines = counts.lines().filter(|line| line.starts_with("IpExt:")).map(str::split_whitespace);
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let pairs: Vec<(&str, &str)> = names.zip(values).collect();
        let count = |wanted| pairs.iter().find(|(name, _)| *name == wanted).and_then(|(_, n)| n.parse().ok());
        (count("InMcastPkts").expect("a number"), count("OutMcastPkts").expect("a number"))
    }
}
