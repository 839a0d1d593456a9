//! The switches that the configuration asks for, kept as it asks.

mod controllers;
mod mirrors;
mod ports;
mod spanning;
mod state;

use crate::bridge::Bridge;
use crate::configuration::{self, BridgeWanted, Configuration, InterfaceWanted, MirrorWanted};
use crate::event::{EventKind, Report};
use crate::interface::{KINDS, Opened, Vteps, check, peer};
use crate::spanning::SpanningTree;
use fulmar_node::Random;
use fulmar_ovsdb::{Datum, Handle, Uuid};
use fulmar_port::memory;
use fulmar_vswitch::{Settings, Station, Switch};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// The bridges that run, by their names.
pub(crate) type Bridges = Mutex<BTreeMap<String, Arc<Bridge>>>;

/// What the names of the configuration database's files begin with.
pub(crate) const DATABASE: &str = "conf.db";
/// So many bridges run, each with threads of its own: those that run go on, then come the others by their names.
const MOST_BRIDGES: usize = 256;

/// What runs.
pub(crate) struct Switches {
    directory: PathBuf,
    report: Arc<Report>,
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
    /// Which of the numbers that are asked for is whose.
    requests: BTreeMap<u32, String>,
    /// What this switch is called by others: no two have the same.
    identity: u64,
    mirrors: Vec<MirrorWanted>,
    /// What is wrong with controllers, by their targets.
    refused: BTreeMap<String, String>,
    /// Stations that were at ports which have left.
    left: Vec<Station>,
    spanning: Option<SpanningTree>,
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
        report: Arc<Report>,
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
        let mut left = Vec::new();
        for name in gone {
            self.bridges.lock().remove(&name);
            let bridge = self.running.remove(&name);
            left.extend(
                bridge.iter().flat_map(|running| running.bridge.stations()).map(|(station, ..)| station),
            );
        }
        for (name, bridge) in &wanted.bridges {
            if !self.running.contains_key(name) && self.running.len() >= MOST_BRIDGES {
                let why = format!("bridge {name} does not run: there are {MOST_BRIDGES} others");
                (self.report)(&EventKind::Bridge.event(why));
                continue;
            }
            if !self.running.contains_key(name)
                && let Err(why) = self.start(name, number(name, bridge), identity(name))
            {
                (self.report)(&EventKind::Bridge.event(format!("bridge {name} does not run: {why}")));
                continue;
            }
            let Some(running) = self.running.get_mut(name) else { continue };
            running.detach_unwanted(name, bridge);
            // A number that was a mirror's may be another's now.
            running.mirror();
            running.bridge.switch().set_learning(bridge.learning);
            running.prepare_for_controllers(bridge, (name, &self.directory), &*self.report);
        }
        self.forget(left);
        for (name, bridge) in &wanted.bridges {
            if let Some(running) = self.running.get_mut(name) {
                running.attach_wanted(name, bridge, &mut self.vteps, &*self.report);
            }
        }
        self.patch(wanted);
        for (name, bridge) in &wanted.bridges {
            if let Some(running) = self.running.get_mut(name) {
                running.mirror_wanted(name, bridge, &*self.report);
                running.span_wanted(bridge);
                let socket = |kind: &str| self.directory.join(format!("{name}.{kind}"));
                if let Err(why) = running.bridge.listen(&socket("mgmt"), &socket("snoop"), &bridge.versions) {
                    (self.report)(&EventKind::Bridge.event(format!("bridge {name}: sockets: {why}")));
                }
                running.set_controllers(bridge, (name, &self.directory), &*self.report);
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
        let tell = move |text: &str| report(&EventKind::Session.event(text));
        let bridge = Arc::new(Bridge::start(name, switch, self.threads, tell)?);
        bridge.work_alone();
        self.bridges.lock().insert(name.to_owned(), bridge.clone());
        let running = Running {
            bridge,
            datapath,
            ports: BTreeMap::new(),
            kept: BTreeMap::new(),
            claimed: BTreeSet::new(),
            requests: BTreeMap::new(),
            identity,
            mirrors: Vec::new(),
            refused: BTreeMap::new(),
            left: Vec::new(),
            spanning: None,
        };
        self.running.insert(name.to_owned(), running);
        Ok(())
    }

    /// No bridge knows any more where these stations are, and those at ports that have left: another one may know them behind a patch port, and
    /// they may be at one of its own ports next.
    fn forget(&mut self, mut left: Vec<Station>) {
        left.extend(self.running.values_mut().flat_map(|running| std::mem::take(&mut running.left)));
        if !left.is_empty() {
            self.running.values().for_each(|running| running.bridge.forget(&left));
        }
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
        let has_changed = running.iter_mut().fold(false, |has_changed, (name, running)| {
            running.bridge.tick();
            running.tell_loops(name, &**report);
            let has_closed = running.close_gone(&**report);
            let has_opened = running.reopen(name, vteps);
            if has_opened {
                running.mirror();
            }
            if has_opened || has_closed {
                running.span();
            }
            has_opened | has_closed | has_changed
        });
        self.forget(Vec::new());
        has_changed
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
                draft.set("Open_vSwitch", root, "iface_types", Datum::set(KINDS))?;
                draft.set("Open_vSwitch", root, "cur_cfg", wanted.next)?;
                draft.set("Open_vSwitch", root, "ovs_version", Some(env!("CARGO_PKG_VERSION")))?;
            }
            Ok(())
        });
        if let Err(why) = told {
            let why = format!("the state of the switches cannot be written down: {why}");
            (self.report)(&EventKind::Database.event(why));
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

/// Reads what is asked for.
pub(crate) fn wanted(database: &Handle) -> Configuration {
    database.read(configuration::read)
}
