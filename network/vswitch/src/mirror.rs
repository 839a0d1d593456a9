//! Mirrors: whoever looks at a network gets copies of what comes in and goes out at ports.

use crate::traffic::{Counters, Traffic};
use fulmar_packet::{FlowKey, Match};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a mirror's copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorOutput {
    /// To this port, which is for nothing else: what comes in there is dropped, and an ordinary switch sends nothing else there.
    Port(u32),
    /// To all ports of this VLAN.
    Vlan(u16),
}

/// Which packets are copied, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// No other mirror's: with it, one goes on counting when it changes.
    pub id: u128,
    /// For people.
    pub name: String,
    /// Those that come in at these ports…
    pub arriving: BTreeSet<u32>,
    /// …and those that leave by these; those that do both once.
    pub leaving: BTreeSet<u32>,
    /// Of them those of these VLANs; of all, if there are none.
    pub vlans: BTreeSet<u16>,
    /// And of those, such as meet this.
    pub filter: Match,
    /// Where the copies go.
    pub output: MirrorOutput,
    /// So many bytes of each packet; all, if it is not said.
    pub length: Option<u32>,
}

impl Mirror {
    pub(crate) fn selects(&self, vlan: u16, packet: &FlowKey) -> bool {
        (self.vlans.is_empty() || self.vlans.contains(&vlan)) && self.filter.matches(packet)
    }
}

/// A mirror, and what it has copied.
#[derive(Debug)]
pub(crate) struct Mirroring {
    pub(crate) mirror: Mirror,
    pub(crate) counters: Arc<Counters>,
}

/// All mirrors of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirrors(Arc<[Arc<Mirroring>]>);

impl Mirrors {
    /// These; one that was there before goes on counting.
    pub(crate) fn new(mirrors: Vec<Mirror>, before: &Self) -> Self {
        let counters = |id: u128| {
            let same = before.0.iter().find(|mirroring| mirroring.mirror.id == id);
            same.map(|mirroring| mirroring.counters.clone()).unwrap_or_default()
        };
        let new = |mirror: Mirror| Arc::new(Mirroring { counters: counters(mirror.id), mirror });
        Self(mirrors.into_iter().map(new).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Mirroring>> {
        self.0.iter()
    }

    pub(crate) fn are(&self, mirrors: &[Mirror]) -> bool {
        self.0.iter().map(|mirroring| &mirroring.mirror).eq(mirrors)
    }

    /// The ports that are there for copies alone.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = u32> {
        self.0.iter().filter_map(|mirroring| match mirroring.mirror.output {
            MirrorOutput::Port(port) => Some(port),
            MirrorOutput::Vlan(_) => None,
        })
    }

    /// Whether a port is one of them.
    pub(crate) fn reserve(&self, port: u32) -> bool {
        self.outputs().any(|output| output == port)
    }

    pub(crate) fn stats(&self) -> Vec<(u128, Traffic)> {
        let stats = |mirroring: &Arc<Mirroring>| (mirroring.mirror.id, mirroring.counters.get());
        self.0.iter().map(stats).collect()
    }
}
