//! Ports, as flows and controllers see them: what sends and receives is elsewhere.

use crate::queue::Queues;
use crate::traffic::{Counters, Traffic};
use crate::tunnel::Tunnel;
use fulmar_node::Time;
use fulmar_openflow::PortNumber;
use fulmar_openflow::ports::{HardwareAddress, Port, PortConfig, PortFeatures, PortState, PortStats};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How frames of a port belong to VLANs, for what is switched as an ordinary switch does (IEEE 802.1Q).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vlans {
    /// To this one, without a tag on the port: what has one does not belong there.
    Access(u16),
    /// Those with a tag to that; those without to `native`. Only those of `allowed`, if it is not empty.
    Trunk {
        /// Where frames without a tag belong: 0 is an ordinary one, of which `allowed` says whether it is on this port.
        native: u16,
        /// Whether frames of that leave with a tag.
        is_native_tagged: bool,
        /// Which VLANs there are on this port; all, if this is empty.
        allowed: Vec<u16>,
    },
}

impl Vlans {
    /// All VLANs, with tags, and what has none.
    pub const ALL: Self = Self::Trunk { native: 0, is_native_tagged: false, allowed: Vec::new() };

    /// To which VLAN a frame belongs that comes in, if it may: `tag` is the number in its tag, 0 for none.
    pub(crate) fn of(&self, tag: u16) -> Option<u16> {
        match self {
            Self::Access(vlan) => (tag == 0).then_some(*vlan),
            Self::Trunk { native, .. } => {
                let vlan = if tag == 0 { *native } else { tag };
                self.has(vlan).then_some(vlan)
            }
        }
    }

    /// Whether frames of a VLAN leave here.
    pub(crate) fn has(&self, vlan: u16) -> bool {
        match self {
            Self::Access(own) => vlan == *own,
            Self::Trunk { allowed, native, .. } => {
                let is_native = *native != 0 && vlan == *native;
                is_native || allowed.is_empty() || allowed.contains(&vlan)
            }
        }
    }

    /// The content of the tag with which a frame of a VLAN leaves, 0 for none: a priority is kept in a tag, even if that has no number.
    pub(crate) fn tag(&self, vlan: u16, priority: u16) -> u16 {
        match self {
            Self::Trunk { native, is_native_tagged, .. } if *is_native_tagged || vlan != *native => {
                vlan | priority
            }
            Self::Trunk { .. } => priority,
            Self::Access(_) => 0,
        }
    }

    /// Of a frame that comes in, the priority that its tag says.
    pub(crate) fn priority(&self, tag: u16) -> u16 {
        if matches!(self, Self::Access(_)) { 0 } else { tag & PRIORITY }
    }
}

/// The bits of a tag that are its priority.
const PRIORITY: u16 = 0xe000;

/// What a port has done, added to by whoever sends and receives.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// What came in.
    pub(crate) received: Counters,
    /// What came in, and was too much.
    pub(crate) refused: Counters,
    /// What went out.
    pub(crate) sent: Counters,
    /// Packets that were to go out and could not.
    pub(crate) dropped: Counters,
}

impl PortCounters {
    /// So much went out, or could not.
    pub fn have_sent(&self, traffic: Traffic, went: bool) {
        if went { &self.sent } else { &self.dropped }.add(traffic);
    }

    /// What came in and went its way, what came in and was too much; what went out, and what could not.
    pub fn all(&self) -> [Traffic; 4] {
        [&self.received, &self.refused, &self.sent, &self.dropped].map(Counters::get)
    }

    /// So much came in.
    pub fn has_received(&self, traffic: Traffic) {
        self.received.add(traffic);
    }

    /// So much came in that was too much.
    pub fn has_refused(&self, traffic: Traffic) {
        self.refused.add(traffic);
    }
}

/// A port that flows can send to.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Its name: no other port's.
    pub name: String,
    /// Its address.
    pub address: HardwareAddress,
    /// What controllers want of it.
    pub config: PortConfig,
    /// Whether it has a link.
    pub has_link: bool,
    /// Kilobits a second; 0 if that is not known.
    pub speed: u32,
    /// How its frames belong to VLANs.
    pub vlans: Vlans,
    /// The bond that it is a member of, if any: an ordinary switch uses one member of it, of those that have a link the one whose name comes first.
    pub bond: Option<Arc<str>>,
    /// What it does with frames that are not the spanning tree's, if it is in one.
    pub tree: Option<fulmar_rstp::State>,
    /// What is put before frames that leave here, if it is the end of a tunnel.
    pub tunnel: Option<Tunnel>,
    /// Its queues, if it has any but the order in which packets come.
    pub(crate) queues: Option<Arc<Queues>>,
    /// What it has done.
    pub counters: Arc<PortCounters>,
    /// When it was added.
    pub(crate) created: Time,
}

impl PortInfo {
    /// A port with a link, of any VLAN.
    pub fn new(name: &str, address: HardwareAddress) -> Self {
        Self {
            name: name.to_owned(),
            address,
            config: PortConfig::NONE,
            has_link: true,
            speed: 0,
            vlans: Vlans::ALL,
            bond: None,
            tree: None,
            tunnel: None,
            queues: None,
            counters: Arc::default(),
            created: Time::ZERO,
        }
    }

    /// Whether what comes in is looked at; where the tree only learns, it goes nowhere.
    pub(crate) fn receives(&self) -> bool {
        !self.config.contains(PortConfig::DOWN)
            && !self.config.contains(PortConfig::NO_RECEIVE)
            && self.tree.is_none_or(|state| state.learning)
    }

    pub(crate) fn sends(&self) -> bool {
        self.is_alive() && !self.config.contains(PortConfig::NO_FORWARD) && self.forwards()
    }

    /// Whether the tree lets frames pass.
    pub(crate) fn forwards(&self) -> bool {
        self.tree.is_none_or(|state| state.forwarding)
    }

    /// Whether it can be chosen by fast failover.
    pub(crate) fn is_alive(&self) -> bool {
        self.has_link && !self.config.contains(PortConfig::DOWN)
    }

    pub(crate) fn stats(&self, number: u32, now: Time) -> PortStats {
        let [received, refused, sent, dropped] = self.counters.all();
        let age = now.since(self.created);
        PortStats {
            port: PortNumber(number),
            received_packets: received.packets,
            sent_packets: sent.packets,
            received_bytes: received.bytes,
            sent_bytes: sent.bytes,
            receive_dropped: refused.packets,
            send_dropped: dropped.packets,
            receive_errors: 0,
            send_errors: 0,
            frame_errors: u64::MAX,
            overruns: u64::MAX,
            crc_errors: u64::MAX,
            collisions: u64::MAX,
            seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX),
            nanoseconds: age.subsec_nanos(),
        }
    }

    pub(crate) fn tell(&self, number: u32) -> Port {
        let state = match (self.has_link, self.is_alive()) {
            (false, _) => PortState::LINK_DOWN,
            (true, true) => PortState::LIVE,
            (true, false) => PortState::NONE,
        };
        let state = if self.forwards() { state } else { state | PortState::BLOCKED };
        let current = match self.speed {
            10_000_000 => PortFeatures::FULL_10G,
            1_000_000 => PortFeatures::FULL_1G,
            0 => PortFeatures::NONE,
            _ => PortFeatures::OTHER,
        };
        Port {
            number: PortNumber(number),
            address: self.address,
            name: self.name.as_str().into(),
            config: self.config,
            state,
            current,
            advertised: PortFeatures::NONE,
            supported: PortFeatures::NONE,
            peer: PortFeatures::NONE,
            current_speed: self.speed,
            max_speed: self.speed,
        }
    }
}

/// All ports of a switch, by their numbers.
pub(crate) type Ports = BTreeMap<u32, PortInfo>;

/// The port that is used where one is meant: itself, or the member of its bond that is in use; none, if none has a link.
pub(crate) fn in_use(ports: &Ports, number: u32) -> Option<u32> {
    let Some(bond) = ports.get(&number).and_then(|port| port.bond.as_ref()) else { return Some(number) };
    let is_usable = |(_, port): &(&u32, &PortInfo)| port.bond.as_ref() == Some(bond) && port.is_alive();
    let usable = ports.iter().filter(is_usable);
    usable.min_by_key(|(_, port)| &port.name).map(|(number, _)| *number)
}
