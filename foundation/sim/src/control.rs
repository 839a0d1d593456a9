//! Faults, one by one, and their ends.

use crate::delay::nanos;
use crate::node::Input;
use crate::sim::Happening;
use crate::trace::What;
use crate::{CutId, Delay, Sim, Simulated, Weather};
use fulmar_node::{NodeId, Outbox};
use std::mem;
use std::time::Duration;

fn names(nodes: &[NodeId]) -> String {
    let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    names.join(",")
}

impl<P: Simulated> Sim<P> {
    /// Whether a node has a process.
    #[must_use]
    pub fn is_up(&self, id: NodeId) -> bool {
        self.node(id).process.is_some()
    }

    /// Ends a node's process. It loses its memory, its timers and what waits for it; of the records that are not
    /// durable yet, chance keeps some of the first. What it has sent is under way. A node that is down stays so.
    pub fn crash(&mut self, id: NodeId) {
        if !self.is_up(id) {
            return;
        }
        let (now, disk) = (self.now, &self.node(id).disk);
        let (logged, durable) = (disk.log.len(), disk.durable);
        let kept = durable + self.random.index(logged - durable + 1);
        let lost = logged - kept;
        self.counts.crashes += 1;
        self.counts.records_lost += lost as u64;
        self.trace.add(now, id, What::Crash, format_args!("and {lost} of {logged} records are lost"));
        let node = self.node_mut(id);
        node.process = None;
        node.out = Outbox::default();
        node.incarnation += 1;
        node.serving = false;
        node.sending = false;
        node.paused = false;
        node.refuses = false;
        node.disk.log.truncate(kept);
        node.disk.durable = kept;
        node.disk.syncing = false;
        node.disk.tears = false;
        let alarms = mem::take(&mut node.alarms);
        let inbox = mem::take(&mut node.inbox);
        let program = node.program.take();
        for alarm in alarms.values() {
            self.wheel.remove(alarm.key);
        }
        for input in inbox {
            match input {
                Input::Wake { program, turn } => {
                    self.wheel.insert(now, Happening::Wake { program, turn });
                }
                Input::Message { .. } => self.counts.dead += 1,
                _ => {}
            }
        }
        if let Some(program) = program
            && let Some(turn) = self.programs[program].lose()
        {
            self.wheel.insert(now, Happening::Wake { program, turn });
        }
    }

    /// Ends a node's process alone: as [`Sim::crash`], but its machine closes its connections, and refuses new ones; those who can
    /// hear that do.
    pub fn kill(&mut self, id: NodeId) {
        self.crash(id);
        self.node_mut(id).refuses = true;
        let others = self.processes().iter().map(|(other, _)| other);
        let hear = others.filter(|other| !self.network.is_cut(id, *other)).collect::<Vec<_>>();
        hear.into_iter().for_each(|other| self.hear_disconnected(other, id));
    }

    /// Ends the connection between two nodes, and with it what is on its way; both hear of it.
    pub fn disconnect(&mut self, one: NodeId, other: NodeId) {
        self.hear_disconnected(one, other);
        self.hear_disconnected(other, one);
    }

    /// Tells a node that its connection to another has ended: nothing comes of that any more.
    pub(crate) fn hear_disconnected(&mut self, id: NodeId, peer: NodeId) {
        self.network.end_connection(peer, id);
        let incarnation = self.node(id).incarnation;
        let input = Input::Disconnected(peer);
        self.wheel.insert(self.now, Happening::Input { node: id, incarnation, input });
    }

    /// Has a node's process end as soon as a step of it has emitted several records, of which then some may be lost; or not any
    /// more.
    pub fn crash_in_write(&mut self, id: NodeId, ends: bool) {
        self.node_mut(id).disk.tears = ends;
    }

    /// Lets a node that is down come up again, with a process made from the records that it has kept. It stays down if
    /// its disk is broken.
    pub fn restart(&mut self, id: NodeId) {
        if !self.is_up(id) && !self.node(id).disk.broken {
            self.counts.restarts += 1;
            self.boot(id);
        }
    }

    /// Lets a node do nothing until it is resumed. What comes to it waits; its disk goes on.
    pub fn pause(&mut self, id: NodeId) {
        if self.is_up(id) && !mem::replace(&mut self.node_mut(id).paused, true) {
            self.counts.pauses += 1;
            self.trace.add(self.now, id, What::Pause, format_args!(""));
        }
    }

    /// Lets a paused node go on.
    pub fn resume(&mut self, id: NodeId) {
        if mem::replace(&mut self.node_mut(id).paused, false) {
            self.trace.add(self.now, id, What::Resume, format_args!(""));
            // Not at once: the caller may be a step of the node itself.
            self.after(Duration::ZERO, move |sim| sim.serve(id));
        }
    }

    /// Stops all messages from some nodes to some others, those under way too.
    pub fn cut(
        &mut self,
        from: impl IntoIterator<Item = NodeId>,
        to: impl IntoIterator<Item = NodeId>,
    ) -> CutId {
        self.separate(from, to, false)
    }

    /// Stops all messages between some nodes and some others, those under way too.
    pub fn partition(
        &mut self,
        some: impl IntoIterator<Item = NodeId>,
        others: impl IntoIterator<Item = NodeId>,
    ) -> CutId {
        self.separate(some, others, true)
    }

    fn separate(
        &mut self,
        from: impl IntoIterator<Item = NodeId>,
        to: impl IntoIterator<Item = NodeId>,
        both_ways: bool,
    ) -> CutId {
        let (from, to): (Vec<NodeId>, Vec<NodeId>) = (from.into_iter().collect(), to.into_iter().collect());
        let arrow = if both_ways { "<->" } else { "->" };
        let ends = format!("{} {arrow} {}", names(&from), names(&to));
        let first = from.first().copied().unwrap_or_default();
        let cut = self.network.cut(from, to, both_ways);
        self.counts.cuts += 1;
        self.trace.add(self.now, first, What::Network, format_args!("{cut} {ends}"));
        cut
    }

    /// Lets through again what a cut stopped.
    pub fn mend(&mut self, cut: CutId) {
        if self.network.mend(cut) {
            self.trace.add(self.now, NodeId::default(), What::Network, format_args!("mended {cut}"));
        }
    }

    /// Holds up for so long what is sent from one node to another, or by or to everybody: it arrives after that, as over a connection whose
    /// packets are lost, and sent again.
    pub fn stall(&mut self, from: Option<NodeId>, to: Option<NodeId>, lasting: Duration) {
        let name = |node: Option<NodeId>| node.map_or_else(|| "all".into(), |node| node.to_string());
        let ends = format!("stalled {} -> {} for {lasting:?}", name(from), name(to));
        self.trace.add(self.now, from.or(to).unwrap_or_default(), What::Network, format_args!("{ends}"));
        self.network.stall(from, to, self.now, self.now + lasting);
    }

    /// Changes the faults of all links.
    pub fn set_weather(&mut self, weather: Weather) {
        self.trace.add(self.now, NodeId::default(), What::Network, format_args!("{weather:?}"));
        self.network.weather = weather;
    }

    /// Lets a node's clock leap forward, and from now on go faster by so many millionths, or slower. Clocks start at
    /// zero and never go back. They go on while the node is down.
    ///
    /// # Panics
    ///
    /// If the clock would not go forward.
    pub fn set_clock(&mut self, id: NodeId, leap: Duration, drift_ppm: i32) {
        let now = self.now;
        self.counts.clock_changes += 1;
        self.trace.add(now, id, What::Clock, format_args!("leaps {leap:?} and drifts {drift_ppm} ppm"));
        self.node_mut(id).clock.set(now, nanos(leap), drift_ppm);
        // Deadlines that the change brought nearer.
        let node = self.node(id);
        let incarnation = node.incarnation;
        let alarms: Vec<_> = node.alarms.iter().map(|(&timer, &alarm)| (timer, alarm)).collect();
        for (timer, mut alarm) in alarms {
            self.wheel.remove(alarm.key);
            alarm.at = self.node(id).clock.when(alarm.deadline).max(now);
            alarm.key = self.wheel.insert(alarm.at, Happening::Alarm { node: id, incarnation, timer });
            self.node_mut(id).alarms.insert(timer, alarm);
        }
    }

    /// How long a node's disk takes to make records durable: at first half of the syncs take 200 µs, and one in a
    /// hundred more than 2 ms.
    pub fn set_sync(&mut self, id: NodeId, sync: Delay) {
        self.trace.add(self.now, id, What::Disk, format_args!("syncs in {sync:?}"));
        self.node_mut(id).disk.sync = sync;
    }

    /// Lets a node's syncs take so much longer from now on.
    pub fn slow_disk(&mut self, id: NodeId, by: Delay) {
        self.trace.add(self.now, id, What::Disk, format_args!("slower by {by:?}"));
        self.node_mut(id).disk.slowness = by;
    }

    /// How long each message keeps a node busy, while others wait: at first no time.
    pub fn set_service(&mut self, id: NodeId, service: Delay) {
        self.node_mut(id).service = (service != Delay::ZERO).then(|| Box::new(move |_: &_| service) as _);
    }

    /// The same, where it depends on the message.
    pub fn set_service_by(&mut self, id: NodeId, service: impl Fn(&P::Message) -> Delay + 'static) {
        self.node_mut(id).service = Some(Box::new(service));
    }

    /// How long each message that a node sends keeps it busy, one after the other, before that is on its way: at first no
    /// time. A multicast is one message.
    pub fn set_departure(&mut self, id: NodeId, departure: Delay) {
        self.node_mut(id).departure = departure;
    }

    /// Lets a node's syncs fail from now on, also the one at work: the first that does ends the process, as a driver
    /// would, and the node stays down until the disk is repaired. What was durable stays so.
    pub fn break_disk(&mut self, id: NodeId) {
        if !mem::replace(&mut self.node_mut(id).disk.broken, true) {
            self.counts.disks_broken += 1;
            self.trace.add(self.now, id, What::Disk, format_args!("broken"));
        }
    }

    /// Lets a broken disk work again.
    pub fn repair_disk(&mut self, id: NodeId) {
        if mem::replace(&mut self.node_mut(id).disk.broken, false) {
            self.trace.add(self.now, id, What::Disk, format_args!("repaired"));
        }
    }

    /// Gives a node an empty disk, after a crash. It does not come up by itself.
    pub fn replace_disk(&mut self, id: NodeId) {
        self.crash(id);
        self.trace.add(self.now, id, What::Disk, format_args!("replaced"));
        let disk = &mut self.node_mut(id).disk;
        disk.log.clear();
        disk.durable = 0;
        disk.broken = false;
    }
}
