//! Everything that a decision about a packet depends on, apart from the packet.

use crate::group::Groups;
use crate::mac::{Macs, Station};
use crate::meter::Meter;
use crate::mirror::Mirrors;
use crate::monitor::FlowChange;
use crate::port::Ports;
use crate::step::{Credit, Frozen, Rest};
use crate::table::Tables;
use crate::traffic::Traffic;
use fulmar_classifier::Optimisations;
use fulmar_node::Time;
use fulmar_openflow::flow::FlowMod;
use fulmar_packet::FlowKey;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// Tables, groups, meters, ports, mirrors and stations.
///
/// Packets are decided about in several threads, each of which holds [`Pipeline::steady`] meanwhile; who changes several things at
/// once holds [`Pipeline::alone`]. Flows are learned, and stations heard, in the course of a decision: those change one thing by itself.
pub(crate) struct Pipeline {
    pub(crate) tables: Tables,
    pub(crate) groups: RwLock<Groups>,
    pub(crate) meters: RwLock<BTreeMap<u32, Arc<Meter>>>,
    pub(crate) ports: RwLock<Ports>,
    pub(crate) mirrors: RwLock<Mirrors>,
    pub(crate) macs: Mutex<Macs>,
    frozen: Mutex<HashMap<u64, Vec<Arc<Frozen>>, foldhash::fast::FixedState>>,
    next_frozen: AtomicU32,
    generation: AtomicU64,
    change: RwLock<()>,
    /// Held while it is seen whether a flow is to be learned, and that is done: several threads do it.
    pub(crate) learning: Mutex<()>,
    /// Whether controllers get what no flow is for.
    pub(crate) tells_misses: AtomicBool,
    /// Whether packets are treated as by an ordinary switch, and no flow is asked.
    pub(crate) passes_flows_over: AtomicBool,
    /// Whether fragments of IP packets are dropped.
    pub(crate) drops_fragments: AtomicBool,
    /// Whether it is told how flows change…
    watched: AtomicBool,
    /// …and what is yet to be told of those that were learned.
    pub(crate) learned: Mutex<Vec<FlowChange>>,
}

impl Pipeline {
    pub(crate) fn new(optimisations: Optimisations, seed: u64) -> Self {
        Self {
            tables: Tables::new(optimisations, seed),
            groups: RwLock::default(),
            meters: RwLock::default(),
            ports: RwLock::default(),
            mirrors: RwLock::default(),
            macs: Mutex::default(),
            frozen: Mutex::default(),
            next_frozen: AtomicU32::new(1),
            generation: AtomicU64::new(0),
            change: RwLock::default(),
            learning: Mutex::default(),
            tells_misses: AtomicBool::new(false),
            passes_flows_over: AtomicBool::new(false),
            drops_fragments: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            learned: Mutex::default(),
        }
    }

    /// While this is held nobody changes several things at once.
    pub(crate) fn steady(&self) -> RwLockReadGuard<'_, ()> {
        self.change.read_recursive()
    }

    /// While this is held nobody decides.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.change.write()
    }

    /// How often something has changed. A decision of an earlier generation may be wrong now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(SeqCst)
    }

    /// Something has changed: said after it has, and before anybody is told that it has.
    pub(crate) fn has_changed(&self) {
        self.generation.fetch_add(1, SeqCst);
    }

    /// Whether it is told how flows change.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Relaxed)
    }

    /// It is told from now on, or not.
    pub(crate) fn watch(&self, is_watched: bool) {
        self.watched.store(is_watched, Relaxed);
    }

    /// A station was heard at a port.
    pub(crate) fn hear(&self, station: Station, port: u32, now: Time) {
        if self.macs.lock().hear(station, port, now) {
            self.has_changed();
        }
    }

    /// Takes a learned flow in; one that is there already stays, as if it had been learned now.
    pub(crate) fn learn(&self, flow_mod: &FlowMod, now: Time) {
        if self.tables.renew(flow_mod, now) {
            return;
        }
        // There may be no room: then the packet goes its way, and nothing has been learned.
        if let Ok(changes) = self.tables.change(flow_mod, now) {
            if self.is_watched() {
                self.learned.lock().extend(changes.iter().filter_map(FlowChange::of));
            }
            self.has_changed();
        }
    }

    /// Packets came that were decided about in the same way.
    pub(crate) fn credit(&self, credits: &[Credit], traffic: Traffic, now: Time) {
        for credit in credits {
            match credit {
                Credit::Lookup(table, entry) => {
                    self.tables.credit(*table, entry.is_some(), traffic);
                    if let Some(entry) = entry {
                        entry.value().credit(traffic, now);
                    }
                }
                Credit::Group(group) => group.counters.add(traffic),
                Credit::Member(member) => member.counters.add(traffic),
                // What is no longer so has changed the generation, and is found out when the next packet is decided about.
                Credit::Heard(station, port) => self.macs.lock().hear_again(*station, *port, now),
                Credit::Finished(entry, idle, hard) => entry.value().shorten(*idle, *hard),
                Credit::Mirrored(mirroring) => mirroring.counters.add(traffic),
                Credit::Learned(flow_mod) => drop(self.tables.renew(flow_mod, now)),
            }
        }
    }

    /// What is left to do, under a number that is the same for the same.
    pub(crate) fn freeze(&self, rest: Rest) -> Arc<Frozen> {
        let mut frozen = self.frozen.lock();
        let hash = frozen.hasher().hash_one(&rest.metadata);
        let same = frozen.entry(hash).or_default();
        if let Some(there) = same.iter().find(|frozen| frozen.rest == rest) {
            return there.clone();
        }
        let number = self.next_frozen.fetch_add(1, Relaxed);
        let new = Arc::new(Frozen { number, rest });
        same.push(new.clone());
        new
    }

    /// Forgets what nobody needs any more.
    pub(crate) fn tidy(&self) {
        self.tables.tidy();
        self.frozen.lock().retain(|_, same| {
            same.retain(|frozen| Arc::strong_count(frozen) > 1);
            !same.is_empty()
        });
    }

    /// Which port sends to the number of a port, if there is one that does.
    pub(crate) fn sends(&self, port: u32) -> bool {
        self.ports.read().get(&port).is_some_and(|info| info.sends())
    }

    /// What the spanning tree lets the port do where it came in, if that is in one.
    pub(crate) fn tree(&self, key: &FlowKey) -> Option<fulmar_rstp::State> {
        self.ports.read().get(&in_port(key)).and_then(|info| info.tree)
    }

    /// Whether what came in there is to be looked at.
    pub(crate) fn receives(&self, key: &FlowKey) -> bool {
        let port = in_port(key);
        self.ports.read().get(&port).is_none_or(|info| info.receives())
    }
}

/// The number of the port where a packet came in.
pub(crate) fn in_port(key: &FlowKey) -> u32 {
    u32::try_from(key.get(fulmar_packet::Field::IN_PORT)).unwrap_or_default()
}
