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
    /// The weight of blackouts, in which as many crash at once as may be down.
    pub blackout: u64,
    /// The weight of pauses.
    pub pause: u64,
    /// The weight of cuts from one node to another, in one direction.
    pub cut: u64,
    /// The weight of partitions of the nodes in two.
    pub partition: u64,
    /// The weight of bad weather: loss, duplication and reordering on all links.
    pub weather: u64,
    /// The weight of slow disks.
    pub slow_disk: u64,
    /// The weight of broken disks.
    pub broken_disk: u64,
    /// The weight of clocks that leap and drift.
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
            blackout: 0,
            pause: 0,
            cut: 0,
            partition: 0,
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

    const fn weights(&self) -> [u64; 9] {
        [
            self.crash,
            self.blackout,
            self.pause,
            self.cut,
            self.partition,
            self.weather,
            self.slow_disk,
            self.broken_disk,
            self.clock,
        ]
    }
}

impl<P: Simulated> Sim<P> {
    /// The first phase: lets faults happen from now on, until [`Sim::heal`] or other faults.
    pub fn inject(&mut self, faults: Faults) {
        self.plan += 1;
        if faults.weights().iter().any(|&weight| weight > 0) && !faults.nodes.is_empty() {
            let (faults, plan) = (Rc::new(faults), self.plan);
            self.await_fault(faults, plan);
        }
    }

    /// The second phase, in which progress must be made: no more faults, a whole network in good weather, and the nodes
    /// of `core` are up, with disks that work and clocks that go as they should. Other nodes stay as they are.
    pub fn heal(&mut self, core: impl IntoIterator<Item = NodeId>) {
        self.plan += 1;
        self.network.mend_all();
        self.set_weather(Weather::default());
        for id in core {
            self.set_clock(id, Duration::ZERO, 0);
            self.repair_disk(id);
            self.restart(id);
            self.resume(id);
        }
    }

    fn await_fault(&mut self, faults: Rc<Faults>, plan: u64) {
        let wait = self.moment(faults.every * 2);
        self.after(wait, move |sim| {
            if sim.plan == plan {
                sim.befall(&faults);
                sim.await_fault(faults, plan);
            }
        });
    }

    /// Lets one fault happen.
    fn befall(&mut self, faults: &Faults) {
        let kind = self.misfortune.weighted(&faults.weights());
        let Some(&node) = self.misfortune.choose(&faults.nodes) else { return };
        let lasting = self.moment(faults.lasting);
        match kind {
            0 => self.crash_for(faults, node, lasting),
            1 => {
                let first = self.misfortune.index(faults.nodes.len());
                for &node in faults.nodes[first..].iter().chain(&faults.nodes[..first]) {
                    let lasting = self.moment(lasting);
                    self.crash_for(faults, node, lasting);
                }
            }
            2 => {
                self.pause(node);
                self.after(lasting, move |sim| sim.resume(node));
            }
            3 => {
                if let Some(&other) = self.misfortune.choose(&faults.nodes) {
                    let cut = self.cut([node], [other]);
                    self.after(lasting, move |sim| sim.mend(cut));
                }
            }
            4 => {
                let random = &mut self.misfortune;
                let (some, others): (Vec<NodeId>, Vec<NodeId>) =
                    faults.nodes.iter().partition(|_| random.one_in(2));
                let cut = self.partition(some, others);
                self.after(lasting, move |sim| sim.mend(cut));
            }
            5 => {
                let mut some =
                    || if self.misfortune.one_in(2) { 0.0 } else { self.misfortune.fraction() / 4.0 };
                let weather = Weather { loss: some(), duplication: some(), reorder: some() };
                let plan = self.plan;
                self.set_weather(weather);
                self.after(lasting, move |sim| {
                    if sim.plan == plan {
                        sim.set_weather(Weather::default());
                    }
                });
            }
            6 => {
                let usual = self.node(node).disk.sync;
                let slow =
                    Delay::Uniform { low: Duration::from_millis(10), high: Duration::from_millis(200) };
                if usual != slow {
                    self.set_sync(node, slow);
                    self.after(lasting, move |sim| sim.set_sync(node, usual));
                }
            }
            7 => {
                if self.may_go_down(faults, node) {
                    self.break_disk(node);
                    self.after(lasting, move |sim| {
                        sim.repair_disk(node);
                        sim.restart(node);
                    });
                }
            }
            _ => {
                let leap = self.moment(Duration::from_millis(50));
                let drift = self.misfortune.between(-100_000, 100_000);
                self.set_clock(node, leap, i32::try_from(drift).unwrap_or(0));
            }
        }
    }

    fn crash_for(&mut self, faults: &Faults, node: NodeId, lasting: Duration) {
        if self.may_go_down(faults, node) {
            self.crash(node);
            self.after(lasting, move |sim| sim.restart(node));
        }
    }

    /// A random part of a span.
    fn moment(&mut self, span: Duration) -> Duration {
        Delay::Uniform { low: Duration::ZERO, high: span }.sample(&mut self.misfortune)
    }

    /// Whether the plan lets this node go down, beside those that are or may be soon.
    fn may_go_down(&self, faults: &Faults, node: NodeId) -> bool {
        let unsteady = |&&id: &&NodeId| id != node && (!self.is_up(id) || self.node(id).disk.broken);
        self.is_up(node) && faults.nodes.iter().filter(unsteady).count() < faults.down
    }
}
