//! A topology that runs.

use crate::driver::{Driver, Wire};
use crate::link::Counts;
use crate::namespace::Namespace;
use crate::tell::tell;
use crate::topology::{self, Topology};
use crate::{Error, Quality};
use fulmar_bridge::{Bridge, FailMode};
use fulmar_openflow::Version;
use fulmar_port::{Port, memory, tap};
use fulmar_session::Settings as Kept;
use fulmar_vswitch::{PortInfo, Settings, Switch};
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Hosts, switches and links. They are gone when this is.
pub(crate) struct Network {
    topology: Topology,
    hosts: Vec<Namespace>,
    switches: Vec<Bridge>,
    driver: Driver,
}

/// What a link's end is plugged into.
enum Place {
    /// A host, and which of its interfaces.
    Host(usize, usize),
    /// A switch, and which of its ports.
    Switch(usize, u32),
}

impl Network {
    /// Brings all up. Each switch has its sockets in this directory.
    pub(crate) fn start(topology: Topology, directory: &Path) -> Result<Self, Error> {
        let hosts = topology.hosts.iter().map(|_| Namespace::new()).collect::<Result<Vec<_>, _>>()?;
        let numbers = 1..;
        let switches = topology
            .switches
            .iter()
            .zip(numbers)
            .map(|(switch, number)| bridge(switch, number))
            .collect::<Result<Vec<_>, _>>()?;
        let driver = Driver::start(Vec::new())?;
        let network = Self { topology, hosts, switches, driver };
        let mut wires = Vec::new();
        for (link, seed) in network.topology.links.iter().zip(0..) {
            let ends = [network.plug(link, wires.len(), 0)?, network.plug(link, wires.len(), 1)?];
            wires.push(Wire::new(ends, &link.quality, seed));
        }
        network.driver.with(|driven| *driven = wires);
        for (at, host) in network.topology.hosts.iter().enumerate() {
            network.hosts[at].ip(&host.name, &commands(&network.topology, at, host))?;
        }
        for at in 0..network.topology.links.len() {
            if !network.topology.links[at].quality.up {
                network.show_carrier(at)?;
            }
        }
        for (bridge, switch) in network.switches.iter().zip(&network.topology.switches) {
            control(bridge, switch, directory)?;
        }
        Ok(network)
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn hosts(&self) -> &[Namespace] {
        &self.hosts
    }

    pub(crate) fn host(&self, name: &str) -> Option<&Namespace> {
        let at = self.topology.hosts.iter().position(|host| host.name == name)?;
        Some(&self.hosts[at])
    }

    /// Lets switches do what is due. To be called about once a second.
    pub(crate) fn tick(&self) {
        self.switches.iter().for_each(Bridge::tick);
    }

    /// What became of frames on each link, in each direction.
    pub(crate) fn counts(&self) -> Vec<[Counts; 2]> {
        self.driver.with(|wires| wires.iter().map(Wire::counts).collect()).unwrap_or_default()
    }

    /// All links between these two are as good as that from now on.
    pub(crate) fn set_quality(&mut self, at: usize, quality: Quality) -> Result<(), Error> {
        let was_up = std::mem::replace(&mut self.topology.links[at].quality, quality.clone()).up;
        let is_up = quality.up;
        self.driver.with(move |wires| wires[at].set_quality(&quality));
        if was_up == is_up {
            return Ok(());
        }
        self.show_carrier(at)
    }

    /// Lets both ends of a link see whether it is up.
    fn show_carrier(&self, at: usize) -> Result<(), Error> {
        let link = &self.topology.links[at];
        for side in [0, 1] {
            match self.place(at, side) {
                Place::Host(host, interface) => {
                    let carrier = if link.quality.up { "on" } else { "off" };
                    let command = format!("link set dev eth{interface} carrier {carrier}\n");
                    self.hosts[host].ip(&link.ends[side], &command)?;
                }
                Place::Switch(..) => {
                    let port = if link.quality.up { Some(self.plug(link, at, side)?) } else { None };
                    self.driver.with(move |wires| wires[at].plug(side, port));
                }
            }
        }
        Ok(())
    }

    fn place(&self, at: usize, side: usize) -> Place {
        let name = &self.topology.links[at].ends[side];
        let interface = self.topology.links[..at].iter().filter(|link| link.ends.contains(name)).count();
        match self.topology.hosts.iter().position(|host| host.name == *name) {
            Some(host) => Place::Host(host, interface),
            None => {
                let is_it = |switch: &topology::Switch| switch.name == *name;
                let switch = self.topology.switches.iter().position(is_it);
                let switch = switch.unwrap_or_else(|| unreachable!("links have ends"));
                Place::Switch(switch, u32::try_from(interface + 1).unwrap_or(u32::MAX))
            }
        }
    }

    /// What a link is plugged into at one end: an interface is made for it, or a port.
    fn plug(&self, link: &topology::Link, at: usize, side: usize) -> Result<Port, Error> {
        let name = &link.ends[side];
        match self.place(at, side) {
            Place::Host(host, interface) => {
                let tap = self.hosts[host].within(|| tap::create(&format!("eth{interface}")))?;
                tap.map_err(|why| Error::Interface { host: name.clone(), why })
            }
            Place::Switch(switch, number) => {
                let pair = memory::pair().map_err(|why| Error::Interface { host: name.clone(), why })?;
                let address = mac(0x8000 + switch, usize::try_from(number).unwrap_or_default());
                let info = PortInfo::new(&format!("{name}-eth{number}"), address);
                let known = self.switches[switch].switch().port(number);
                self.switches[switch].attach(number, known.unwrap_or(info), pair.0);
                Ok(pair.1)
            }
        }
    }
}

/// Where a switch's socket is for `ovs-ofctl`.
pub(crate) fn management(directory: &Path, switch: &str) -> PathBuf {
    directory.join(format!("{switch}.mgmt"))
}

fn bridge(switch: &topology::Switch, number: u64) -> Result<Bridge, Error> {
    // The same network behaves in the same way each time.
    let settings = Settings { seed: number, ..Settings::default() };
    let name = switch.name.clone();
    let report = move |text: &str| tell(format_args!("switch {name}: {text}"));
    let datapath = Switch::new(number, &switch.name, settings).on("fulmar net");
    Bridge::start(&switch.name, datapath, NonZeroUsize::MIN, report)
        .map_err(Error::cannot(format!("start switch {}", switch.name)))
}

/// Gives a switch its controllers, sockets and flows.
fn control(bridge: &Bridge, switch: &topology::Switch, directory: &Path) -> Result<(), Error> {
    let cannot = || Error::cannot(format!("start switch {}", switch.name));
    let controllers = switch.controllers.iter().map(|target| (target.clone(), Kept::default())).collect();
    bridge.set_controllers(controllers, switch.fail_mode).map_err(cannot())?;
    if switch.controllers.is_empty() && switch.fail_mode == FailMode::Standalone {
        bridge.work_alone();
    }
    for flow in &switch.flows {
        let refused = |why| Error::Refused(format!("switch {} refuses flow {flow}: {why}", switch.name));
        bridge.switch().add_flow(flow.clone(), fulmar_node::Time::ZERO).map_err(refused)?;
    }
    let snoop = directory.join(format!("{}.snoop", switch.name));
    bridge.listen(&management(directory, &switch.name), &snoop, &Version::ALL).map_err(cannot())
}

/// An address that nobody else has made up: of which host or switch, and of which interface.
pub(crate) fn mac(owner: usize, interface: usize) -> [u8; 6] {
    let [.., high, low] = owner.to_be_bytes();
    let [.., middle, last] = interface.to_be_bytes();
    [2, 0, high, low, middle, last]
}

/// What `ip` is to do for a host.
fn commands(topology: &Topology, at: usize, host: &topology::Host) -> String {
    let mut commands = String::from("link set dev lo up\n");
    // Writing to a string does not fail.
    for interface in 0..topology.neighbours(&host.name).count() {
        let made_up = mac(at + 1, interface).map(|byte| format!("{byte:02x}")).join(":");
        let mac = host.mac.as_ref().filter(|_| interface == 0).unwrap_or(&made_up);
        // Hosts are quiet: without an address of its own making, an interface looks for no routers.
        let _ = writeln!(commands, "link set dev eth{interface} addrgenmode none address {mac}");
        let _ = writeln!(commands, "link set dev eth{interface} up");
    }
    for topology::Address { ip, prefix, interface } in &host.addresses {
        // Nobody else has it, so that it can be used at once.
        let at_once = if ip.is_ipv6() { " nodad" } else { "" };
        let _ = writeln!(commands, "address add {ip}/{prefix} dev eth{interface}{at_once}");
    }
    for route in &host.routes {
        let _ = writeln!(commands, "route add {route}");
    }
    commands
}
