//! A plan of faults, and the end of all of them.

use crate::{Delay, Sim, Simulated, Weather};
use fulmar_node::{NodeId, Random};
use std::rc::Rc;
use std::time::Duration;

/// What goes wrong, how often and for how long. A fault of weight zero does not occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Whom faults befall.
    pub nodes: Vec<NodeId>,
    /// The mean time from one fault to the next.
    pub every: Duration,
    /// The longest time that a fault lasts.
    pub lasting: Duration,
    /// At most so many of the nodes are down at a time.
    pub down: usize,
    /// The weight of crashes, each with a restart.
    pub crash: u64,
    /// The weight of crashes in the midst of the records of one step, each with a restart; not among those of
    /// [`Faults::random`].
    pub torn_write: u64,
    /// The weight of blackouts, in which as many crash at once as may be down.
    pub blackout: u64,
    /// The weight of pauses.
    pub pause: u64,
    /// The weight of cuts from one node to another, in one direction.
    pub cut: u64,
    /// The weight of partitions of the nodes in two.
    pub partition: u64,
    /// The weight of stalls, of what is sent from one node to another, to one, or by one; not among those of [`Faults::random`].
    pub stall: u64,
    /// The weight of bad weather: loss, duplication and reordering on all links.
    pub weather: u64,
    /// The weight of slow disks.
    pub slow_disk: u64,
    /// The weight of broken disks.
    pub broken_disk: u64,
    /// The weight of clocks that leap forward and drift by up to a tenth.
    pub clock: u64,
}

impl Faults {
    /// No faults, for some weights to be set: some ten times a second, for up to half a second each, and no more nodes
    /// down than leave a majority.
    #[must_use]
    pub fn none(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        Self {
            down: nodes.len().saturating_sub(1) / 2,
            nodes,
            every: Duration::from_millis(100),
            lasting: Duration::from_millis(500),
            crash: 0,
            torn_write: 0,
            blackout: 0,
            pause: 0,
            cut: 0,
            partition: 0,
            stall: 0,
            weather: 0,
            slow_disk: 0,
            broken_disk: 0,
            clock: 0,
        }
    }

    /// Faults of random weights, of which each is zero once in three times: a mixture of everything finds less than
    /// different mixtures do. Now and then all nodes may be down.
    #[must_use]
    pub fn random(nodes: impl IntoIterator<Item = NodeId>, random: &mut Random) -> Self {
        let calm = Self::none(nodes);
        let mut weight = || if random.one_in(3) { 0 } else { 1 + random.below(8) };
        let mut faults = Self {
            crash: weight(),
            blackout: weight(),
            pause: weight(),
            cut: weight(),
            partition: weight(),
            weather: weight(),
            slow_disk: weight(),
            broken_disk: weight(),
            clock: weight(),
            ..calm
        };
        faults.every = Duration::from_millis(10 + random.below(190));
        faults.lasting = Duration::from_millis(50 + random.below(950));
        if random.one_in(4) {
            faults.down = faults.nodes.len();
        }
        faults
    }

    const fn weights(&self) -> [(Kind, u64); 11] {
        [
            (Kind::Crash, self.crash),
            (Kind::Blackout, self.blackout),
            (Kind::Pause, self.pause),
            (Kind::Cut, self.cut),
            (Kind::Partition, self.partition),
            (Kind::Weather, self.weather),
            (Kind::SlowDisk, self.slow_disk),
            (Kind::BrokenDisk, self.broken_disk),
            (Kind::Clock, self.clock),
            (Kind::TornWrite, self.torn_write),
            (Kind::Stall, self.stall),
        ]
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    Blackout,
    Pause,
    Cut,
    Partition,
    Weather,
    SlowDisk,
    BrokenDisk,
    Clock,
    TornWrite,
    Stall,
}

impl<P: Simulated> Sim<P> {
    /// The first phase: lets faults happen from now on, until [`Sim::heal`]. Several plans add up.
    pub fn inject(&mut self, faults: Faults) {
        if faults.weights().iter().any(|&(_, weight)| weight > 0) && !faults.nodes.is_empty() {
            self.await_fault(Rc::new(faults));
        }
    }

    /// The second phase, in which progress must be made: no more faults, a whole network in good weather, and the nodes
    /// of `core` are up, with disks that work and clocks that go as they should. Other nodes stay as they are.
    pub fn heal(&mut self, core: impl IntoIterator<Item = NodeId>) {
        self.healings += 1;
        self.network.mend_all();
        self.set_weather(Weather::default());
        for id in core {
            self.set_clock(id, Duration::ZERO, 0);
            self.slow_disk(id, Delay::ZERO);
            self.repair_disk(id);
            self.crash_in_write(id, false);
            self.restart(id);
            self.resume(id);
        }
    }

    /// Does something after a while, unless the world is healed before.
    fn unless_healed(&mut self, wait: Duration, action: impl FnOnce(&mut Self) + 'static) {
        let healings = self.healings;
        self.after(wait, move |sim| {
            if sim.healings == healings {
                action(sim);
            }
        });
    }

    fn await_fault(&mut self, faults: Rc<Faults>) {
        let wait = self.moment(faults.every * 2);
        self.unless_healed(wait, |sim| {
            sim.befall(&faults);
            sim.await_fault(faults);
        });
    }

    /// Lets one fault happen, and end.
    fn befall(&mut self, faults: &Faults) {
        let weights = faults.weights();
        let (kind, _) = weights[self.misfortune.weighted(&weights.map(|(_, weight)| weight))];
        let first = self.misfortune.index(faults.nodes.len());
        let (node, lasting) = (faults.nodes[first], self.moment(faults.lasting));
        match kind {
            Kind::Crash => self.crash_for(faults, node, lasting),
            Kind::TornWrite => {
                if self.may_go_down(faults, node) {
                    self.crash_in_write(node, true);
                    self.unless_healed(lasting, move |sim| {
                        sim.crash_in_write(node, false);
                        sim.restart(node);
                    });
                }
            }
            Kind::Blackout => {
                for &node in faults.nodes[first..].iter().chain(&faults.nodes[..first]) {
                    let lasting = self.moment(lasting);
                    self.crash_for(faults, node, lasting);
                }
            }
            Kind::Pause => {
                self.pause(node);
                self.unless_healed(lasting, move |sim| sim.resume(node));
            }
            Kind::Cut => {
                let other = faults.nodes[self.misfortune.index(faults.nodes.len())];
                let cut = self.cut([node], [other]);
                self.unless_healed(lasting, move |sim| sim.mend(cut));
            }
            Kind::Partition => {
                let random = &mut self.misfortune;
                let (some, others): (Vec<NodeId>, Vec<NodeId>) =
                    faults.nodes.iter().partition(|_| random.one_in(2));
                let cut = self.partition(some, others);
                self.unless_healed(lasting, move |sim| sim.mend(cut));
            }
            Kind::Stall => {
                let other = faults.nodes[self.misfortune.index(faults.nodes.len())];
                let (from, to) = match self.misfortune.below(3) {
                    0 => (Some(node), Some(other)),
                    1 => (Some(node), None),
                    _ => (None, Some(node)),
                };
                self.stall(from, to, lasting);
            }
            Kind::Weather => {
                let random = &mut self.misfortune;
                let mut some = || if random.one_in(2) { 0.0 } else { random.fraction() / 4.0 };
                let weather = Weather { loss: some(), duplication: some(), reorder: some() };
                self.set_weather(weather);
                self.unless_healed(lasting, |sim| sim.set_weather(Weather::default()));
            }
            Kind::SlowDisk => {
                let (low, high) = (Duration::from_millis(10), Duration::from_millis(200));
                self.slow_disk(node, Delay::Uniform { low, high });
                self.unless_healed(lasting, move |sim| sim.slow_disk(node, Delay::ZERO));
            }
            Kind::BrokenDisk => {
                if self.may_go_down(faults, node) {
                    self.break_disk(node);
                    self.unless_healed(lasting, move |sim| {
                        sim.repair_disk(node);
                        sim.restart(node);
                    });
                }
            }
            Kind::Clock => {
                let leap = self.moment(Duration::from_millis(50));
                let drift = self.misfortune.between(-100_000, 100_000);
                self.set_clock(node, leap, i32::try_from(drift).unwrap_or(0));
                self.unless_healed(lasting, move |sim| sim.set_clock(node, Duration::ZERO, 0));
            }
        }
    }

    fn crash_for(&mut self, faults: &Faults, node: NodeId, lasting: Duration) {
        if self.may_go_down(faults, node) {
            // Others hear of every other one.
            if self.counts.crashes.is_multiple_of(2) {
                self.kill(node)
            } else {
                self.crash(node)
            }
            self.unless_healed(lasting, move |sim| sim.restart(node));
        }
    }

    /// A random part of a span.
    fn moment(&mut self, span: Duration) -> Duration {
        Delay::Uniform { low: Duration::ZERO, high: span }.sample(&mut self.misfortune)
    }

    /// Whether the plan lets this node go down, beside those that are or may be soon.
    fn may_go_down(&self, faults: &Faults, node: NodeId) -> bool {
        let goes = |id| !self.is_up(id) || self.node(id).disk.broken || self.node(id).disk.tears;
        let unsteady = |&&id: &&NodeId| id != node && goes(id);
        self.is_up(node) && faults.nodes.iter().filter(unsteady).count() < faults.down
    }
}
