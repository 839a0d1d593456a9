//! Hosts on one Ethernet: network namespaces on a bridge that floods multicasts. Needs `ip` (iproute2) and the rights of root.

use fulmar_namespaces::{Namespace, Refused};
use std::net::Ipv4Addr;

/// A bridge and what is plugged into it.
pub(crate) struct Network {
    bridge: Namespace,
}

impl Network {
    /// An empty one. An error says why there can be none here.
    pub(crate) fn new() -> Result<Self, Refused> {
        let bridge = Namespace::new("bridge")?;
        // With snooping it would wait for somebody to ask who listens.
        bridge.ip(&["link", "add", "bridge", "type", "bridge", "mcast_snooping", "0"])?;
        bridge.ip(&["link", "set", "bridge", "up"])?;
        Ok(Self { bridge })
    }

    /// Plugs in another host, with a number that none has yet.
    pub(crate) fn host(&self, number: u8) -> Result<Host, Refused> {
        let namespace = Namespace::new(&number.to_string())?;
        let (address, port) = (Ipv4Addr::new(10, 0, 0, number), format!("port{number}"));
        let bridge = self.bridge.name();
        namespace.ip(&["link", "add", "eth0", "type", "veth", "peer", "name", &port, "netns", bridge])?;
        self.bridge.ip(&["link", "set", &port, "master", "bridge", "up"])?;
        namespace.ip(&["address", "add", &format!("{address}/24"), "dev", "eth0"])?;
        namespace.ip(&["link", "set", "eth0", "up"])?;
        Ok(Host { namespace, address })
    }
}

/// One host.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) address: Ipv4Addr,
}

impl Host {
    /// How many multicasts the host has received and sent over IPv4, as the system counts them.
    pub(crate) fn multicasts(&self) -> (u64, u64) {
        let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").expect("Linux counts");
        let counts = self.namespace.within(read);
        let mut lines = counts.lines().filter(|line| line.starts_with("IpExt:")).map(str::split_whitespace);
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let pairs: Vec<(&str, &str)> = names.zip(values).collect();
        let count = |wanted| pairs.iter().find(|(name, _)| *name == wanted).and_then(|(_, n)| n.parse().ok());
        (count("InMcastPkts").expect("a number"), count("OutMcastPkts").expect("a number"))
    }
}
