//! The switches that the configuration asks for, kept as it asks.

use crate::bridge::Bridge;
use crate::configuration::{self, BridgeWanted, Configuration, InterfaceWanted, MirrorTo, MirrorWanted};
use crate::interface::{Opened, Vteps, check, is_made, open, peer};
use fulmar_node::Random;
use fulmar_openflow::role::Role;
use fulmar_openflow::{PortNumber, TextError, parse_match};
use fulmar_ovsdb::{Datum, Draft, Error, Handle, Uuid};
use fulmar_packet::Match;
use fulmar_port::{memory, tap};
use fulmar_session::{Target, TargetError};
use fulmar_vswitch::{Mirror, MirrorOutput, PortInfo, Settings, Switch};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bridges that run, by their names.
pub(crate) type Bridges = Mutex<BTreeMap<String, Arc<Bridge>>>;

/// What the names of the configuration database's files begin with.
pub(crate) const DATABASE: &str = "conf.db";
/// So many bridges run, each with threads of its own: those that run go on, then come the others by their names.
const MOST_BRIDGES: usize = 256;
/// So many controllers a bridge has, each with a thread.
const MOST_CONTROLLERS: usize = 64;
/// Ports have numbers below this one.
const FIRST_RESERVED: u32 = 0xff00;

/// What runs.
pub(crate) struct Switches {
    directory: PathBuf,
    report: Arc<dyn Fn(&str) + Send + Sync>,
    threads: NonZeroUsize,
    seed: u64,
    /// As others see it.
    bridges: Arc<Bridges>,
    running: BTreeMap<String, Running>,
    vteps: Vteps,
}

struct Running {
    bridge: Arc<Bridge>,
    datapath: u64,
    ports: BTreeMap<String, RunningPort>,
    /// Numbers of ports that have gone only to come again as something else.
    kept: BTreeMap<String, u32>,
    /// Numbers that interfaces ask for, or had before.
    claimed: BTreeSet<u32>,
    /// What this switch is called by others: no two have the same.
    identity: u64,
    mirrors: Vec<MirrorWanted>,
    /// What is wrong with controllers, by their targets.
    refused: BTreeMap<String, String>,
}

struct RunningPort {
    /// Also of one that ran before; 0, if it never did.
    number: u32,
    wanted: InterfaceWanted,
    /// Why it does not run.
    error: Option<String>,
}

impl Switches {
    pub(crate) fn new(
        directory: PathBuf,
        bridges: Arc<Bridges>,
        threads: NonZeroUsize,
        seed: u64,
        report: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self { directory, report, threads, seed, bridges, running: BTreeMap::new(), vteps: Vteps::default() }
    }

    /// Makes what runs what is asked for. What goes goes first, so that its names are free.
    pub(crate) fn apply(&mut self, wanted: &Configuration) {
        let identity = |name: &str| identity(wanted.root, name);
        let number = |name: &str, bridge: &BridgeWanted| bridge.datapath.unwrap_or_else(|| identity(name));
        let is_wanted = |name: &str, running: &Running| {
            wanted.bridges.get(name).is_some_and(|bridge| number(name, bridge) == running.datapath)
        };
        let gone: Vec<String> = self
            .running
            .iter()
            .filter(|(name, running)| !is_wanted(name, running))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.bridges.lock().remove(&name);
            self.running.remove(&name);
        }
        for (name, bridge) in &wanted.bridges {
            if !self.running.contains_key(name) && self.running.len() >= MOST_BRIDGES {
                (self.report)(&format!("bridge {name} does not run: there are {MOST_BRIDGES} others"));
                continue;
            }
            if !self.running.contains_key(name)
                && let Err(why) = self.start(name, number(name, bridge), identity(name))
            {
                (self.report)(&format!("bridge {name} does not run: {why}"));
                continue;
            }
            let Some(running) = self.running.get_mut(name) else { continue };
            let socket = |kind: &str| self.directory.join(format!("{name}.{kind}"));
            if let Err(why) = running.bridge.listen(&socket("mgmt"), &socket("snoop"), &bridge.versions) {
                (self.report)(&format!("bridge {name}: sockets: {why}"));
            }
            running.detach_unwanted(bridge);
            // A number that was a mirror's may be another's now.
            running.mirror();
            running.set_controllers(bridge, (name, &self.directory), &*self.report);
        }
        for (name, bridge) in &wanted.bridges {
            if let Some(running) = self.running.get_mut(name) {
                running.attach_wanted(name, bridge, &mut self.vteps, &*self.report);
            }
        }
        self.patch(wanted);
        for (name, bridge) in &wanted.bridges {
            if let Some(running) = self.running.get_mut(name) {
                running.mirror_wanted(name, bridge, &*self.report);
            }
        }
    }

    fn start(&mut self, name: &str, datapath: u64, identity: u64) -> std::io::Result<()> {
        // Its sockets have its name, too.
        if name.contains('/') {
            return Err(std::io::Error::other("no interface has a name with a slash"));
        }
        let switch = Switch::new(datapath, name, Settings { seed: self.seed, ..Settings::default() });
        let report = self.report.clone();
        let bridge = Arc::new(Bridge::start(name, switch, self.threads, move |text| report(text))?);
        bridge.work_alone();
        self.bridges.lock().insert(name.to_owned(), bridge.clone());
        let running = Running {
            bridge,
            datapath,
            ports: BTreeMap::new(),
            kept: BTreeMap::new(),
            claimed: BTreeSet::new(),
            identity,
            mirrors: Vec::new(),
            refused: BTreeMap::new(),
        };
        self.running.insert(name.to_owned(), running);
        Ok(())
    }

    /// Joins ports that name each other: two ends of a link inside.
    fn patch(&mut self, wanted: &Configuration) {
        let patches: Vec<(&String, &InterfaceWanted)> = wanted
            .bridges
            .iter()
            .flat_map(|(bridge, wanted)| wanted.interfaces.iter().map(move |interface| (bridge, interface)))
            .filter(|(_, interface)| interface.kind == "patch" && check(interface).is_ok())
            .collect();
        for (at, (bridge, interface)) in patches.iter().enumerate() {
            let is_other = |(_, other): &&(&String, &InterfaceWanted)| {
                peer(interface) == Some(&other.name) && peer(other) == Some(&interface.name)
            };
            let Some((other_bridge, other)) = patches[at + 1..].iter().find(is_other) else { continue };
            let is_open = |bridge: &str, name: &str| {
                self.running
                    .get(bridge)
                    .and_then(|running| running.ports.get(name))
                    .is_some_and(|port| port.error.is_none())
            };
            if is_open(bridge, &interface.name) && is_open(other_bridge, &other.name) {
                continue;
            }
            let Ok((one, two)) = memory::pair() else { continue };
            for (bridge, interface, end) in [(bridge, interface, one), (other_bridge, other, two)] {
                if let Some(running) = self.running.get_mut(*bridge) {
                    running.attach(bridge, interface, Ok(Opened::Port(vec![end])));
                }
            }
        }
    }

    /// What is done about once a second; ports whose interfaces are gone or back, too. Whether there are such.
    pub(crate) fn tick(&mut self) -> bool {
        let Self { running, vteps, report, .. } = self;
        running.iter_mut().fold(false, |has_changed, (name, running)| {
            running.bridge.tick();
            let has_closed = running.close_gone(&**report);
            let has_opened = running.reopen(name, vteps);
            if has_opened {
                running.mirror();
            }
            has_opened | has_closed | has_changed
        })
    }

    /// Writes down how it is.
    pub(crate) fn tell(&self, wanted: &Configuration, database: &Handle) {
        let told = database.transact(|draft, _: &mut Random| {
            for (name, bridge) in &wanted.bridges {
                if let Some(running) = self.running.get(name) {
                    running.tell(bridge, &self.directory, draft)?;
                }
            }
            if let Some(root) = wanted.root {
                draft.set("Open_vSwitch", root, "cur_cfg", wanted.next)?;
                draft.set("Open_vSwitch", root, "ovs_version", Some(env!("CARGO_PKG_VERSION")))?;
            }
            Ok(())
        });
        if let Err(why) = told {
            (self.report)(&format!("the state of the switches cannot be written down: {why}"));
        }
    }
}

/// An Ethernet address of its own, as a number, for whatever has this name in a database: always the same there, and another elsewhere.
fn identity(database: Option<Uuid>, name: &str) -> u64 {
    identity_of((database.map(|uuid| uuid.to_string()), name))
}

fn identity_of(what: impl std::hash::Hash) -> u64 {
    use std::hash::BuildHasher;
    let hash = foldhash::quality::FixedState::with_seed(0).hash_one(what);
    // Locally administered, of one station.
    hash & 0x0000_fcff_ffff_ffff | 0x0000_0200_0000_0000
}

impl Running {
    fn detach_unwanted(&mut self, wanted: &BridgeWanted) {
        let by_name: BTreeMap<&str, &InterfaceWanted> =
            wanted.interfaces.iter().map(|interface| (interface.name.as_str(), interface)).collect();
        let stays = |port: &RunningPort| {
            by_name.get(port.wanted.name.as_str()).is_some_and(|interface| {
                // These can change while it runs.
                let same = InterfaceWanted {
                    vlans: port.wanted.vlans.clone(),
                    shaping: port.wanted.shaping.clone(),
                    policing: port.wanted.policing,
                    last: port.wanted.last,
                    address: port.wanted.address,
                    ..(*interface).clone()
                };
                same == port.wanted
            })
        };
        let gone: Vec<String> =
            self.ports.iter().filter(|(_, port)| !stays(port)).map(|(name, _)| name.clone()).collect();
        for name in gone {
            if let Some(port) = self.ports.remove(&name) {
                self.bridge.detach(port.number);
                if port.number > 0 && by_name.contains_key(name.as_str()) {
                    self.kept.insert(name, port.number);
                }
            }
        }
    }

    fn attach_wanted(
        &mut self,
        bridge: &str,
        wanted: &BridgeWanted,
        vteps: &mut Vteps,
        report: &(dyn Fn(&str) + Send + Sync),
    ) {
        let numbers = |interface: &InterfaceWanted| [interface.number, interface.last];
        self.claimed = wanted.interfaces.iter().flat_map(numbers).flatten().collect();
        for interface in &wanted.interfaces {
            let address = self.address(bridge, interface);
            if let Some(port) = self.ports.get_mut(&interface.name) {
                if port.wanted.address != interface.address && port.error.is_none() && is_made(interface) {
                    port.wanted.address = interface.address;
                    if let Err(why) = tap::set_address(&interface.name, address) {
                        report(&why.to_string());
                    }
                }
                if port.wanted.vlans != interface.vlans {
                    port.wanted.vlans = interface.vlans.clone();
                    self.bridge.set_vlans(port.number, interface.vlans.clone());
                }
                if port.wanted.shaping != interface.shaping {
                    port.wanted.shaping = interface.shaping.clone();
                    self.bridge.shape(port.number, interface.shaping.as_deref());
                }
                if port.wanted.policing != interface.policing {
                    port.wanted.policing = interface.policing;
                    self.bridge.police(port.number, interface.policing);
                }
                continue;
            }
            let opened = open(interface, address, self.bridge.threads(), vteps);
            if let Some(error) = self.attach(bridge, interface, opened) {
                report(&error);
            }
        }
        self.kept.clear();
    }

    /// Joins what an interface is, or remembers why it does not: that is answered, too.
    fn attach(
        &mut self,
        bridge: &str,
        interface: &InterfaceWanted,
        opened: Result<Opened, String>,
    ) -> Option<String> {
        let number = self.number(bridge, interface);
        let error = opened.and_then(|opened| self.put(interface, number, opened)).err();
        if error.is_none() {
            self.bridge.shape(number, interface.shaping.as_deref());
            self.bridge.police(number, interface.policing);
        }
        // One that has never run has no number that would be kept for it.
        let has_run = self.ports.get(&interface.name).is_some_and(|port| port.number > 0);
        let ran = error.is_none() || has_run || self.kept.contains_key(&interface.name);
        let port = RunningPort {
            number: if ran { number } else { 0 },
            wanted: interface.clone(),
            error: error.clone(),
        };
        self.ports.insert(interface.name.clone(), port);
        error
    }

    /// The Ethernet address of an interface that is made here.
    fn address(&self, bridge: &str, interface: &InterfaceWanted) -> [u8; 6] {
        let own = if interface.name == bridge {
            self.identity
        } else {
            identity_of((self.identity, &interface.name))
        };
        let [_, _, address @ ..] = own.to_be_bytes();
        interface.address.unwrap_or(address)
    }

    /// The number of a port.
    fn number(&self, bridge: &str, interface: &InterfaceWanted) -> u32 {
        if interface.name == bridge {
            return PortNumber::LOCAL.0;
        }
        let before = self.ports.get(&interface.name).map(|port| port.number).filter(|number| *number > 0);
        let others = || self.ports.iter().filter(|(name, _)| **name != interface.name);
        let is_free = |number: &u32| others().all(|(_, port)| port.number != *number);
        let is_kept = |number: &u32| self.kept.values().any(|kept| kept == number);
        // It keeps its number, which flows know.
        let number = before.or_else(|| interface.number.filter(is_free));
        let number = number.or_else(|| interface.last.filter(is_free));
        let number = number.or_else(|| self.kept.get(&interface.name).copied().filter(is_free));
        let is_new = |number: &u32| is_free(number) && !is_kept(number) && !self.claimed.contains(number);
        number.or_else(|| (1..FIRST_RESERVED).find(is_new)).unwrap_or(FIRST_RESERVED)
    }

    fn put(&self, interface: &InterfaceWanted, number: u32, opened: Opened) -> Result<(), String> {
        let name = &interface.name;
        if number == FIRST_RESERVED {
            return Err(format!("{name}: the bridge has no number left for a port"));
        }
        let mut info = PortInfo::new(name, [0; 6]);
        info.vlans = interface.vlans.clone();
        info.bond = interface.bond.as_ref().map(|bond| bond.port.clone());
        match opened {
            Opened::Port(lanes) => {
                self.bridge.attach_lanes(number, info, lanes);
                Ok(())
            }
            Opened::Tunnel(vtep, wanted) => {
                info.tunnel = Some(wanted.tunnel);
                let attached = self.bridge.attach_tunnel(number, info, &vtep, wanted.claim);
                attached.map_err(|why| format!("{name}: {why}"))
            }
        }
    }

    /// Removes the ports whose interfaces are gone. Whether there are such.
    fn close_gone(&mut self, report: &(dyn Fn(&str) + Send + Sync)) -> bool {
        let mut has_closed = false;
        for port in self.ports.values_mut() {
            if port.error.is_none() && self.bridge.is_gone(port.number) {
                self.bridge.detach(port.number);
                let error = format!("{}: the interface is gone", port.wanted.name);
                report(&error);
                port.error = Some(error);
                has_closed = true;
            }
        }
        has_closed
    }

    /// Opens what could not be opened, if it can be now. Whether there is such.
    fn reopen(&mut self, bridge: &str, vteps: &mut Vteps) -> bool {
        let wants = |port: &&RunningPort| port.wanted.kind != "patch" && port.error.is_some();
        let closed: Vec<InterfaceWanted> =
            self.ports.values().filter(wants).map(|port| port.wanted.clone()).collect();
        closed.iter().fold(false, |has_opened, interface| {
            let address = self.address(bridge, interface);
            let Ok(opened) = open(interface, address, self.bridge.threads(), vteps) else {
                return has_opened;
            };
            self.attach(bridge, interface, Ok(opened)).is_none() | has_opened
        })
    }

    fn mirror_wanted(&mut self, bridge: &str, wanted: &BridgeWanted, report: &(dyn Fn(&str) + Send + Sync)) {
        if self.mirrors != wanted.mirrors {
            self.mirrors.clone_from(&wanted.mirrors);
            if wanted.unmirrored > 0 {
                report(&format!(
                    "bridge {bridge}: {} mirrors copy nothing: there are too many",
                    wanted.unmirrored
                ));
            }
            for mirror in &self.mirrors {
                if let Err(why) = filter(mirror) {
                    report(&format!(
                        "bridge {bridge}: mirror {} copies nothing: its filter: {why}",
                        mirror.name
                    ));
                }
            }
        }
        self.mirror();
    }

    /// Mirrors what is to be, of the ports that there are.
    fn mirror(&self) {
        let number =
            |name: &String| self.ports.get(name).map(|port| port.number).filter(|number| *number > 0);
        let mirror = |wanted: &MirrorWanted| {
            Some(Mirror {
                id: wanted.row.into(),
                name: wanted.name.clone(),
                arriving: wanted.arriving.iter().filter_map(number).collect(),
                leaving: wanted.leaving.iter().filter_map(number).collect(),
                vlans: wanted.vlans.clone(),
                filter: filter(wanted).ok()?,
                output: match &wanted.output {
                    MirrorTo::Port(name) => MirrorOutput::Port(number(name)?),
                    MirrorTo::Vlan(vlan) => MirrorOutput::Vlan(*vlan),
                },
                length: wanted.length,
            })
        };
        self.bridge.switch().set_mirrors(self.mirrors.iter().filter_map(mirror).collect());
    }

    fn set_controllers(
        &mut self,
        wanted: &BridgeWanted,
        (name, directory): (&str, &Path),
        report: &(dyn Fn(&str) + Send + Sync),
    ) {
        let mut controllers = Vec::new();
        self.refused.clear();
        for controller in &wanted.controllers {
            if controllers.len() >= MOST_CONTROLLERS {
                let why = format!("a bridge has {MOST_CONTROLLERS} controllers at most");
                self.refused.insert(controller.target.clone(), why);
                continue;
            }
            match target(&controller.target, directory) {
                Ok(target) => controllers.push((target, controller.settings.clone())),
                Err(why) => drop(self.refused.insert(controller.target.clone(), why)),
            }
        }
        if let Err(why) = self.bridge.set_controllers(controllers, wanted.fail_mode) {
            report(&format!("bridge {name}: controllers: {why}"));
        }
    }

    fn tell(&self, wanted: &BridgeWanted, directory: &Path, draft: &mut Draft<'_>) -> Result<(), Error> {
        let datapath = format!("{:016x}", self.datapath);
        draft.set("Bridge", wanted.row, "datapath_id", Some(datapath))?;
        draft.set("Bridge", wanted.row, "datapath_version", "Fulmar")?;
        for interface in &wanted.interfaces {
            if let Some(port) = self.ports.get(&interface.name) {
                self.tell_port(port, interface.row, draft)?;
            }
        }
        self.tell_bonds(wanted, draft)?;
        let mirrored = self.bridge.switch().mirrored();
        for mirror in &self.mirrors {
            let own = mirrored.iter().find(|(id, _)| *id == mirror.row.into());
            if let Some((_, traffic)) = own {
                let statistics = [("tx_packets", count(traffic.packets)), ("tx_bytes", count(traffic.bytes))];
                draft.set("Mirror", mirror.row, "statistics", Datum::map(statistics))?;
            }
        }
        let status = self.bridge.status();
        for controller in &wanted.controllers {
            let target = target(&controller.target, directory).ok();
            let found = status.iter().find(|status| Some(&status.target) == target.as_ref());
            let error = found.and_then(|status| status.last_error.clone());
            let error = self.refused.get(&controller.target).cloned().or(error);
            let mut pairs = vec![("state", found.map_or("VOID", |status| status.state.name()).to_owned())];
            pairs.extend(error.map(|error| ("last_error", error)));
            let seconds = |long: std::time::Duration| long.as_secs().to_string();
            let since = found.and_then(|status| status.since_connect).map(seconds);
            pairs.extend(since.map(|since| ("sec_since_connect", since)));
            let role = found.and_then(|status| status.role).map(|role| match role {
                Role::Master => "master",
                Role::Slave => "slave",
                _ => "other",
            });
            let row = controller.row;
            draft.set("Controller", row, "is_connected", found.is_some_and(|status| status.is_connected))?;
            draft.set("Controller", row, "role", role)?;
            draft.set("Controller", row, "status", Datum::map(pairs))?;
        }
        Ok(())
    }

    /// By which member each bond is used.
    fn tell_bonds(&self, wanted: &BridgeWanted, draft: &mut Draft<'_>) -> Result<(), Error> {
        let mut bonds: BTreeMap<Uuid, Option<String>> = BTreeMap::new();
        for interface in &wanted.interfaces {
            let (Some(bond), Some(port)) = (&interface.bond, self.ports.get(&interface.name)) else {
                continue;
            };
            let is_in_use = port.error.is_none() && self.bridge.switch().is_in_use(port.number);
            let link = self.bridge.link(port.number).filter(|_| is_in_use);
            let member = bonds.entry(bond.row).or_default();
            if let Some(link) = link {
                *member = Some(address(link.address));
            }
        }
        bonds.into_iter().try_for_each(|(row, member)| draft.set("Port", row, "bond_active_slave", member))
    }

    fn tell_port(&self, port: &RunningPort, row: Uuid, draft: &mut Draft<'_>) -> Result<(), Error> {
        // Of the local port, 16 bits are told, as elsewhere in the database.
        let number = match (&port.error, port.number) {
            (Some(_), _) => -1,
            (None, number) => i64::from(number & 0xffff),
        };
        draft.set("Interface", row, "ofport", Some(number))?;
        draft.set("Interface", row, "error", port.error.clone())?;
        let link = self.bridge.link(port.number).filter(|_| port.error.is_none());
        let up_or_down = |is_up: bool| Some(if is_up { "up" } else { "down" });
        draft.set("Interface", row, "admin_state", link.and_then(|link| up_or_down(link.is_up)))?;
        draft.set("Interface", row, "link_state", link.and_then(|link| up_or_down(link.is_running)))?;
        draft.set("Interface", row, "mac_in_use", link.map(|link| address(link.address)))?;
        // A tunnel's is that of the way that it takes.
        let mtu = link.map(|link| i64::from(link.mtu)).filter(|mtu| *mtu > 0);
        draft.set("Interface", row, "mtu", mtu)?;
        if let Some(info) = self.bridge.switch().port(port.number) {
            let [received, refused, sent, dropped] = info.counters.all();
            let statistics = [
                ("rx_packets", count(received.packets)),
                ("rx_bytes", count(received.bytes)),
                ("rx_dropped", count(refused.packets)),
                ("tx_packets", count(sent.packets)),
                ("tx_bytes", count(sent.bytes)),
                ("tx_dropped", count(dropped.packets)),
            ];
            draft.set("Interface", row, "statistics", Datum::map(statistics))?;
        }
        Ok(())
    }
}

/// An Ethernet address as the database has it.
/// Where a controller is. Sockets of the file system are in the switches' directory only, as Open vSwitch has it: who may write to the
/// configuration database does not choose what this process connects to, or makes, elsewhere.
fn target(text: &str, directory: &Path) -> Result<Target, String> {
    let inside = |path: PathBuf| {
        let path = directory.join(path);
        let name = path.file_name().filter(|_| path.parent() == Some(directory));
        let Some(name) = name else {
            return Err(format!(
                "a controller's socket is in {} only: not {}",
                directory.display(),
                path.display()
            ));
        };
        // The database and what is written in its place are there, too.
        if name.as_encoded_bytes().starts_with(DATABASE.as_bytes()) {
            return Err(format!(
                "{} is the configuration database's: name the socket otherwise",
                path.display()
            ));
        }
        Ok(path)
    };
    match text.parse().map_err(|why: TargetError| why.to_string())? {
        Target::Unix(path) => inside(path).map(Target::Unix),
        Target::PassiveUnix(path) => inside(path).map(Target::PassiveUnix),
        target => Ok(target),
    }
}

fn address(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// A number as the database has it.
fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What packets a mirror copies, besides where they come in and leave.
fn filter(mirror: &MirrorWanted) -> Result<Match, TextError> {
    mirror.filter.as_deref().map_or(Ok(Match::ANY), parse_match)
}

/// Reads what is asked for.
pub(crate) fn wanted(database: &Handle) -> Configuration {
    database.read(configuration::read)
}
