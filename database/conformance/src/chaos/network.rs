//! A host for each server and one for the clients, as network namespaces, with a bridge between them.
//!
//! Hosts know each other's hardware addresses from tables that are written here. To cut a direction is to write an
//! address that nobody has: what is sent is lost in silence, as on a network that fails.

use super::{Failure, output};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;

pub(super) struct Network {
    /// Of each host how often its address has changed.
    moves: Vec<u8>,
    /// From, to.
    cuts: BTreeSet<(usize, usize)>,
}

impl Network {
    pub(super) fn new(hosts: usize) -> Result<Self, Failure> {
        ip("link add fulmar type bridge")?;
        ip("link set fulmar up")?;
        for host in 0..hosts {
            let (name, mac) = (name(host), mac(host));
            ip(&format!("netns add {name}"))?;
            ip(&format!("link add port{host} type veth peer name eth0 address {mac} netns {name}"))?;
            ip(&format!("link set port{host} master fulmar up"))?;
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!("-n {name} link set eth0 addrgenmode none up"))?;
        }
        let network = Self { moves: vec![0; hosts], cuts: BTreeSet::new() };
        for host in 0..hosts {
            ip(&format!("-n {} address add {}/16 dev eth0", name(host), network.address(host)))?;
        }
        network.wire()?;
        Ok(network)
    }

    pub(super) fn address(&self, host: usize) -> String {
        format!("10.77.{}.{}", self.moves[host], host + 1)
    }

    /// Moves the calling thread to a host, and what it starts from now on.
    pub(super) fn enter(host: usize) -> Result<(), Failure> {
        let link = File::open(format!("/run/netns/{}", name(host)))?;
        Ok(move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// The host has another address from now on.
    pub(super) fn rename(&mut self, host: usize) -> Result<(), Failure> {
        let old = self.address(host);
        self.moves[host] = self.moves[host].wrapping_add(1);
        ip(&format!("-n {} address del {old}/16 dev eth0", name(host)))?;
        ip(&format!("-n {} address add {}/16 dev eth0", name(host), self.address(host)))?;
        self.wire()
    }

    /// What the first sends to the second is lost.
    pub(super) fn cut(&mut self, ways: impl IntoIterator<Item = (usize, usize)>) -> Result<(), Failure> {
        self.cuts.extend(ways);
        self.wire()
    }

    pub(super) fn heal(&mut self) -> Result<(), Failure> {
        self.cuts.clear();
        self.wire()
    }

    fn wire(&self) -> Result<(), Failure> {
        let hosts = self.moves.len();
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            if from != to {
                let mac = if self.cuts.contains(&(from, to)) { NOBODY.into() } else { mac(to) };
                let (name, address) = (name(from), self.address(to));
                ip(&format!("-n {name} neighbour replace {address} lladdr {mac} nud permanent dev eth0"))?;
            }
        }
        Ok(())
    }
}

const NOBODY: &str = "02:00:00:00:00:ff";

fn mac(host: usize) -> String {
    format!("02:00:00:00:00:{host:02x}")
}

fn name(host: usize) -> String {
    format!("host{host}")
}

fn ip(arguments: &str) -> Result<(), Failure> {
    output(Command::new("ip").args(arguments.split(' '))).map(drop)
}
