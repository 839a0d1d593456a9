//! Links, cuts and multicast sets: what becomes of a message.

use crate::{Counts, Delay};
use fulmar_node::{MulticastId, NodeId, Random, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// How messages get from one node to another. Probabilities are from 0 to 1.
///
/// A link keeps no order: a message overtakes another whenever its latency is shorter. Only links of one fixed latency
/// whose `reorder` is zero deliver in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// How long a message takes.
    pub latency: Delay,
    /// How likely a message is lost.
    pub loss: f64,
    /// How likely a message that is not lost arrives twice, with a latency of its own each time.
    pub duplication: f64,
    /// How likely a message takes `lateness` on top.
    pub reorder: f64,
    /// What late messages take on top of their latency.
    pub lateness: Delay,
}

impl Default for Link {
    /// A good network of a data center: 50 to 100 µs, and nothing is lost, doubled or late.
    fn default() -> Self {
        let (low, high) = (Duration::from_micros(50), Duration::from_micros(100));
        Self {
            latency: Delay::Uniform { low, high },
            loss: 0.0,
            duplication: 0.0,
            reorder: 0.0,
            lateness: Delay::Uniform { low: Duration::from_micros(100), high: Duration::from_millis(5) },
        }
    }
}

/// Faults that befall every link, on top of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// How likely a message is lost.
    pub loss: f64,
    /// How likely a message that is not lost arrives twice.
    pub duplication: f64,
    /// How likely a message is late.
    pub reorder: f64,
}

/// Names a cut until it is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutId(u64);

impl fmt::Display for CutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cut{}", self.0)
    }
}

/// What is sent from one node to another, or by or to everybody, leaves when this is over.
struct Stall {
    from: Option<NodeId>,
    to: Option<NodeId>,
    until: Time,
}

struct Cut {
    from: BTreeSet<NodeId>,
    to: BTreeSet<NodeId>,
    both_ways: bool,
}

impl Cut {
    fn stops(&self, from: NodeId, to: NodeId) -> bool {
        (self.from.contains(&from) && self.to.contains(&to))
            || (self.both_ways && self.to.contains(&from) && self.from.contains(&to))
    }
}

/// What the network does with a message: how long until each copy arrives.
pub(crate) enum Fate {
    Once(Duration),
    Twice(Duration, Duration),
    Lost,
    Cut,
}

/// The network of a simulation.
pub struct Network {
    /// The link between nodes that have none of their own.
    pub link: Link,
    /// Faults of all links at present.
    pub(crate) weather: Weather,
    links: BTreeMap<(NodeId, NodeId), Link>,
    sets: BTreeMap<MulticastId, Vec<NodeId>>,
    cuts: BTreeMap<CutId, Cut>,
    next_cut: u64,
    stalls: Vec<Stall>,
    /// What a link carries in a second, bytes, if that is limited; and until when each does.
    rate: Option<u64>,
    carrying: BTreeMap<(NodeId, NodeId), Time>,
    /// How many connections from one node to another have ended, if any has.
    ended: BTreeMap<(NodeId, NodeId), u32>,
    random: Random,
}

impl Network {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            link: Link::default(),
            weather: Weather::default(),
            links: BTreeMap::new(),
            sets: BTreeMap::new(),
            cuts: BTreeMap::new(),
            next_cut: 0,
            stalls: Vec::new(),
            rate: None,
            carrying: BTreeMap::new(),
            ended: BTreeMap::new(),
            random,
        }
    }

    /// Gives messages from one node to another a link of their own.
    pub fn set_link(&mut self, from: NodeId, to: NodeId, link: Link) {
        self.links.insert((from, to), link);
    }

    /// Says which nodes a multicast reaches: each by its own link, and the sender too if it is one of them.
    pub fn set_members(&mut self, set: MulticastId, members: impl IntoIterator<Item = NodeId>) {
        self.sets.insert(set, members.into_iter().collect());
    }

    pub(crate) fn members(&self, set: MulticastId) -> &[NodeId] {
        self.sets.get(&set).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn cut(
        &mut self,
        from: impl IntoIterator<Item = NodeId>,
        to: impl IntoIterator<Item = NodeId>,
        both_ways: bool,
    ) -> CutId {
        let id = CutId(self.next_cut);
        self.next_cut += 1;
        let cut = Cut { from: from.into_iter().collect(), to: to.into_iter().collect(), both_ways };
        self.cuts.insert(id, cut);
        id
    }

    pub(crate) fn mend(&mut self, cut: CutId) -> bool {
        self.cuts.remove(&cut).is_some()
    }

    pub(crate) fn mend_all(&mut self) {
        self.cuts.clear();
        self.stalls.clear();
    }

    pub(crate) fn stall(&mut self, from: Option<NodeId>, to: Option<NodeId>, now: Time, until: Time) {
        self.stalls.retain(|stall| stall.until > now);
        self.stalls.push(Stall { from, to, until });
    }

    /// When a message leaves that is sent now.
    pub(crate) fn leaves(&self, from: NodeId, to: NodeId, now: Time) -> Time {
        let holds = |stall: &&Stall| {
            stall.from.is_none_or(|node| node == from) && stall.to.is_none_or(|node| node == to)
        };
        let until = self.stalls.iter().filter(holds).map(|stall| stall.until).max();
        until.map_or(now, |until| until.max(now))
    }

    /// From now on each link carries so many bytes in a second.
    pub(crate) const fn set_rate(&mut self, bytes: u64) {
        self.rate = Some(bytes);
    }

    /// When all of a message of so many bytes has left that is sent then: after what was sent before it on the same link.
    pub(crate) fn carries(&mut self, from: NodeId, to: NodeId, sent: Time, bytes: usize) -> Time {
        let Some(rate) = self.rate.filter(|_| from != to) else { return sent };
        let until = self.carrying.entry((from, to)).or_default();
        *until = sent.max(*until) + Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate);
        *until
    }

    /// Which connection carries what is sent now from one node to another.
    pub(crate) fn connection(&self, from: NodeId, to: NodeId) -> u32 {
        self.ended.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Ends the connection from one node to another: what is on its way is lost with it.
    pub(crate) fn end_connection(&mut self, from: NodeId, to: NodeId) {
        *self.ended.entry((from, to)).or_default() += 1;
    }

    /// Whether a cut keeps messages from going from one node to another.
    #[must_use]
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.values().any(|cut| cut.stops(from, to))
    }

    pub(crate) fn fate(&mut self, from: NodeId, to: NodeId, counts: &mut Counts) -> Fate {
        if from == to {
            return Fate::Once(Duration::ZERO);
        }
        if self.is_cut(from, to) {
            counts.cut += 1;
            return Fate::Cut;
        }
        let link = if self.links.is_empty() { None } else { self.links.get(&(from, to)) };
        let link = *link.unwrap_or(&self.link);
        if self.happens(link.loss) || self.happens(self.weather.loss) {
            counts.lost += 1;
            return Fate::Lost;
        }
        let delay = self.latency(&link, counts);
        if self.happens(link.duplication) || self.happens(self.weather.duplication) {
            counts.duplicated += 1;
            return Fate::Twice(delay, self.latency(&link, counts));
        }
        Fate::Once(delay)
    }

    fn latency(&mut self, link: &Link, counts: &mut Counts) -> Duration {
        let mut delay = link.latency.sample(&mut self.random);
        if self.happens(link.reorder) || self.happens(self.weather.reorder) {
            counts.late += 1;
            delay += link.lateness.sample(&mut self.random);
        }
        delay
    }

    /// Draws no number for what never happens.
    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.happens(probability)
    }
}
