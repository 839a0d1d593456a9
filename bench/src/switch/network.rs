//! Two hosts and a place for a switch between them, as network namespaces. Needs `ip` (iproute2), `ethtool` and the rights of root.

use crate::fault::{Fault, Wrong};
use crate::process::{find_or_install, on_path, output};
use fulmar_namespaces::Namespace;
use std::net::Ipv4Addr;

/// Of the two hosts.
pub(super) const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];
pub(super) const MACS: [u64; 2] = [0x0200_0000_0001, 0x0200_0000_0002];
/// The hosts' interfaces, and those of the switch on the other side of them.
pub(super) const HOST_PORT: &str = "eth0";
pub(super) const PORTS: [&str; 2] = ["port1", "port2"];

/// Two hosts on interfaces whose other ends are a switch's ports.
pub(super) struct Network {
    pub(super) switch: Namespace,
    pub(super) hosts: [Namespace; 2],
}

impl Network {
    pub(super) fn new() -> Result<Self, Fault> {
        let network = Self {
            switch: Namespace::new("switch")?,
            hosts: [Namespace::new("host1")?, Namespace::new("host2")?],
        };
        for (at, host) in network.hosts.iter().enumerate() {
            let (port, mac) = (PORTS[at], written(MACS[at]));
            let link = ["link", "add", port, "type", "veth", "peer", "name", HOST_PORT, "address", &mac];
            network.switch.ip(&[&link[..], &["netns", host.name()]].concat())?;
            network.switch.ip(&["link", "set", port, "addrgenmode", "none", "up"])?;
            host.ip(&["link", "set", HOST_PORT, "addrgenmode", "none", "up"])?;
            host.ip(&["address", "add", &format!("{}/24", ADDRESSES[at]), "dev", HOST_PORT])?;
            let other = 1 - at;
            let neighbour =
                ["neighbour", "add", &ADDRESSES[other].to_string(), "lladdr", &written(MACS[other])];
            host.ip(&[&neighbour[..], &["dev", HOST_PORT, "nud", "permanent"]].concat())?;
            // Enough of them, so that connections are not waited for that have ended.
            let settings = ["net.ipv4.ip_local_port_range=1024 65535", "net.ipv4.tcp_tw_reuse=1"];
            output(host.command("sysctl".as_ref()).arg("--write").args(settings))?;
        }
        Ok(network)
    }

    /// Whether hosts leave checksums and long segments to others.
    pub(super) fn set_offloads(&self, are_on: bool) -> Result<(), Fault> {
        let ethtool = find_or_install(|| on_path("ethtool"), "ethtool", "ethtool")?;
        let state = if are_on { "on" } else { "off" };
        for host in &self.hosts {
            let mut command = host.command(&ethtool);
            command.args(["-K", HOST_PORT]);
            ["tx", "tso", "gso", "gro"].iter().for_each(|offload| {
                command.args([offload, state]);
            });
            output(&mut command)?;
        }
        Ok(())
    }

    /// How many packets have come to the second host.
    pub(super) fn delivered(&self) -> Result<u64, Fault> {
        // `/proc/net` is that of the process, not of the thread.
        let counts = self.hosts[1].within(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        let line = counts.lines().find_map(|line| line.trim().strip_prefix(HOST_PORT)?.strip_prefix(':'));
        let packets = line.and_then(|numbers| numbers.split_whitespace().nth(1));
        Ok(packets
            .ok_or_else(|| Wrong(format!("{HOST_PORT}: the kernel does not count its packets")))?
            .parse()?)
    }
}

fn written(mac: u64) -> String {
    let [_, _, bytes @ ..] = mac.to_be_bytes();
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
