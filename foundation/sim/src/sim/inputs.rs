//! What comes to a node: messages, deadlines, requests, and the steps that its process takes for them.

use super::{Happening, Sim, Simulated};
use crate::node::{Alarm, Input, Processes};
use crate::trace::What;
use fulmar_node::NodeId;

impl<P: Simulated> Sim<P> {
    pub(super) fn arrive(&mut self, from: NodeId, to: NodeId, connection: u32, message: P::Message) {
        if connection != self.network.connection(from, to) {
            self.counts.severed += 1;
            self.trace.add(self.now, to, What::Lost, format_args!("n{} {message:?}", from.0));
            return;
        }
        if self.network.is_cut(from, to) {
            self.counts.cut += 1;
            self.trace.add(self.now, to, What::Cut, format_args!("n{} {message:?}", from.0));
            return;
        }
        let up =
            self.nodes.get(to.0 as usize).and_then(Option::as_deref).is_some_and(|n| n.process.is_some());
        if up {
            self.admit(to, Input::Message { from, message });
        } else {
            self.counts.dead += 1;
            self.trace.add(self.now, to, What::Dead, format_args!("n{} {message:?}", from.0));
            if self.nodes.get(to.0 as usize).and_then(Option::as_deref).is_some_and(|node| node.refuses) {
                self.hear_disconnected(from, to);
            }
        }
    }

    /// A deadline has come, unless it was put off, or the clock was set to go slower.
    pub(super) fn ring(&mut self, id: NodeId, incarnation: u32, timer: P::Timer) {
        let now = self.now;
        let node = self.node_mut(id);
        if node.incarnation != incarnation {
            return;
        }
        let Some(alarm) = node.alarms.get(&timer).copied() else { return };
        if node.clock.shows(now) < alarm.deadline {
            let at = node.clock.when(alarm.deadline);
            let key = self.wheel.insert(at, Happening::Alarm { node: id, incarnation, timer });
            self.node_mut(id).alarms.insert(timer, Alarm { key, at, ..alarm });
        } else {
            node.alarms.remove(&timer);
            self.admit(id, Input::Timer(timer));
        }
    }

    /// Handles an input of a node that is up, at once if it has nothing else to do.
    pub(super) fn admit(&mut self, id: NodeId, input: Input<P>) {
        let node = self.node_mut(id);
        let is_free = !node.paused && !node.sending && node.inbox.is_empty();
        if is_free && (node.service.is_none() || !matches!(input, Input::Message { .. })) {
            self.handle(id, input);
        } else {
            node.inbox.push_back(input);
            self.serve(id);
        }
    }

    /// Handles what waits at a node, up to a message that takes its time.
    pub(crate) fn serve(&mut self, id: NodeId) {
        loop {
            let node = self.node(id);
            if node.paused || node.serving || node.sending {
                return;
            }
            let incarnation = node.incarnation;
            match (node.inbox.front(), &node.service) {
                (None, _) => return,
                (Some(Input::Message { message, .. }), Some(service)) => {
                    let service = service(message);
                    let done = self.now + service.sample(&mut self.random);
                    self.node_mut(id).serving = true;
                    self.wheel.insert(done, Happening::Served { node: id, incarnation });
                }
                (Some(_), _) => self.handle_next(id),
            }
        }
    }

    pub(super) fn served(&mut self, id: NodeId, incarnation: u32) {
        let node = self.node_mut(id);
        if node.incarnation != incarnation {
            return;
        }
        node.serving = false;
        if !node.paused {
            self.handle_next(id);
            self.serve(id);
        }
    }

    pub(super) fn departed(&mut self, id: NodeId, incarnation: u32) {
        let node = self.node_mut(id);
        if node.incarnation == incarnation {
            node.sending = false;
            self.serve(id);
        }
    }

    fn handle_next(&mut self, id: NodeId) {
        if let Some(input) = self.node_mut(id).inbox.pop_front() {
            self.handle(id, input);
        }
    }

    /// One step of a process.
    fn handle(&mut self, id: NodeId, input: Input<P>) {
        let at = self.now;
        let (trace, counts) = (&mut self.trace, &mut self.counts);
        let Some(node) = self.nodes[id.0 as usize].as_deref_mut() else { return };
        let Some(process) = node.process.as_mut() else { return };
        let (now, out) = (node.clock.shows(at), &mut node.out);
        match input {
            Input::Start => {
                trace.add(at, id, What::Start, format_args!("after {} records", out.logged().0));
                process.start(now, out);
            }
            Input::Message { from, message } => {
                trace.add(at, id, What::Receive, format_args!("n{} {message:?}", from.0));
                counts.received += 1;
                node.messages += 1;
                process.receive(now, from, message, out);
            }
            Input::Timer(timer) => {
                trace.add(at, id, What::Expire, format_args!("{timer:?}"));
                process.expire(now, timer, out);
            }
            Input::Request(request) => {
                trace.add(at, id, What::Request, format_args!("{request:?}"));
                if let Some(program) = node.program {
                    self.programs[program].is_served();
                }
                process.request(now, request, out);
            }
            Input::Durable(lsn) => {
                trace.add(at, id, What::Durable, format_args!("{}", lsn.0));
                process.durable(now, lsn, out);
            }
            Input::Disconnected(peer) => {
                trace.add(at, id, What::Disconnect, format_args!("{peer}"));
                process.disconnected(now, peer, out);
            }
            Input::Wake { program, turn } => {
                self.wake(program, turn);
                return;
            }
        }
        counts.steps += 1;
        if !node.out.is_empty() {
            self.carry_out(id);
        }
        for (every, check) in &mut self.invariants {
            if self.counts.steps.is_multiple_of(*every)
                && let Err(wrong) = check(&Processes(&self.nodes))
            {
                panic!("at {at}, after a step of {id}: {wrong}");
            }
        }
    }
}
