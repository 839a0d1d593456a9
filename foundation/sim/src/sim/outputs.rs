//! What a process wants done: messages, timers, records, and events for its user.

use super::{Happening, Sim, Simulated};
use crate::Counts;
use crate::network::{Fate, Network};
use crate::node::{Alarm, Input};
use crate::trace::{Trace, What};
use crate::wheel::Wheel;
use fulmar_node::{Lsn, NodeId, Time, TimerChange};

impl<P: Simulated> Sim<P> {
    /// Does what a process wants done.
    pub(super) fn carry_out(&mut self, id: NodeId) {
        let at = self.now;
        let (trace, counts, wheel, network) =
            (&mut self.trace, &mut self.counts, &mut self.wheel, &mut self.network);
        let Some(node) = self.nodes[id.0 as usize].as_deref_mut() else { return };
        node.messages += (node.out.sends.len() + node.out.multicasts.len()) as u64;
        let size = self.size;
        let mut sender = Sender { id, at, leaves: at, bytes: 0 };
        for (to, message) in node.out.sends.drain(..) {
            sender.leaves = sender.leaves + node.departure.sample(&mut self.random);
            sender.bytes = size.map_or(0, |size| size(&message));
            transmit(sender, to, message, network, wheel, trace, counts);
        }
        for (set, message) in node.out.multicasts.drain(..) {
            sender.leaves = sender.leaves + node.departure.sample(&mut self.random);
            sender.bytes = size.map_or(0, |size| size(&message));
            for index in 0..network.members(set).len() {
                let to = network.members(set)[index];
                transmit(sender, to, message.clone(), network, wheel, trace, counts);
            }
        }
        if sender.leaves > at {
            node.sending = true;
            wheel.insert(sender.leaves, Happening::Departed { node: id, incarnation: node.incarnation });
        }
        for (timer, change) in node.out.timers.drain(..) {
            let TimerChange::Set(deadline) = change else {
                if let Some(alarm) = node.alarms.remove(&timer) {
                    wheel.remove(alarm.key);
                }
                continue;
            };
            let when = node.clock.when(deadline).max(at);
            match node.alarms.get_mut(&timer) {
                // Most timers are put off again and again, which costs nothing.
                Some(alarm) if alarm.at <= when => alarm.deadline = deadline,
                earlier => {
                    if let Some(alarm) = earlier {
                        wheel.remove(alarm.key);
                    }
                    let alarm = Happening::Alarm { node: id, incarnation: node.incarnation, timer };
                    let key = wheel.insert(when, alarm);
                    node.alarms.insert(timer, Alarm { key, at: when, deadline });
                }
            }
        }
        if node.disk.tears && node.out.records.len() > 1 {
            wheel.insert(
                at,
                Happening::Action(Box::new(move |sim| {
                    if sim.node(id).disk.tears {
                        sim.crash(id);
                    }
                })),
            );
        }
        for record in &node.out.records {
            counts.records += 1;
            trace.add(at, id, What::Record, format_args!("{record:?}"));
            node.disk.log.push(record.clone());
        }
        for event in node.out.events.drain(..) {
            counts.events += 1;
            trace.add(at, id, What::Event, format_args!("{event:?}"));
            match node.program {
                None => self.events.push_back((id, event)),
                Some(program) => {
                    if let Some(turn) = self.programs[program].hear(event) {
                        wheel.insert(at, Happening::Wake { program, turn });
                    }
                }
            }
        }
        node.out.clear();
        self.sync(id);
    }

    /// Starts to make durable what is not, unless the disk is at it.
    fn sync(&mut self, id: NodeId) {
        let now = self.now;
        let Some(node) = self.nodes[id.0 as usize].as_deref_mut() else { return };
        let (disk, incarnation) = (&mut node.disk, node.incarnation);
        let upto = disk.log.len();
        if upto > disk.durable && !disk.syncing {
            disk.syncing = true;
            let takes = disk.sync.sample(&mut self.random) + disk.slowness.sample(&mut self.random);
            let done = now + takes;
            self.wheel.insert(done, Happening::Synced { node: id, incarnation, upto });
        }
    }

    pub(super) fn synced(&mut self, id: NodeId, incarnation: u32, upto: usize) {
        let node = self.node_mut(id);
        if node.incarnation != incarnation {
            return;
        }
        node.disk.syncing = false;
        if node.disk.broken {
            self.crash(id);
            return;
        }
        node.disk.durable = upto;
        self.counts.syncs += 1;
        self.sync(id);
        self.admit(id, Input::Durable(Lsn(upto as u64)));
    }
}

/// Who sends, when it has decided to, when what it sends leaves, and how long that is.
#[derive(Clone, Copy)]
struct Sender {
    id: NodeId,
    at: Time,
    leaves: Time,
    bytes: usize,
}

fn transmit<P: Simulated>(
    Sender { id: from, at, leaves, bytes }: Sender,
    to: NodeId,
    message: P::Message,
    network: &mut Network,
    wheel: &mut Wheel<Happening<P>>,
    trace: &mut Trace,
    counts: &mut Counts,
) {
    counts.sent += 1;
    let fate = network.fate(from, to, counts);
    let what = match fate {
        Fate::Once(_) => What::Send,
        Fate::Twice(..) => What::Twice,
        Fate::Lost => What::Lost,
        Fate::Cut => What::Cut,
    };
    trace.add(at, from, what, format_args!("to n{} {message:?}", to.0));
    let leaves = network.leaves(from, to, leaves);
    let leaves = network.carries(from, to, leaves, bytes);
    let connection = network.connection(from, to);
    let arrival = |message| Happening::Arrival { from, to, connection, message };
    match fate {
        Fate::Once(delay) => {
            wheel.insert(leaves + delay, arrival(message));
        }
        Fate::Twice(delay, again) => {
            let copy = message.clone();
            wheel.insert(leaves + delay, arrival(message));
            wheel.insert(leaves + again, arrival(copy));
        }
        Fate::Lost | Fate::Cut => {}
    }
}
