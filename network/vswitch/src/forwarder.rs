//! The path of a packet, in one thread: decided about by what is remembered, or anew, and sent where that says.

use crate::cache::{Cache, Cached, Caching, Hits};
use crate::execute::{Copy, Execution, MAX_RECIRCULATIONS, Output, Packet};
use crate::pipeline::Pipeline;
use crate::step::{Decision, Frozen};
use crate::translate::Translation;
use fulmar_conntrack::Tracker;
use fulmar_node::Time;
use fulmar_openflow::Action;
use fulmar_packet::{Field, FlowKey, Layers};
use fulmar_port::Frame;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Forwards packets of some ports, in one thread.
pub struct Forwarder {
    pipeline: Arc<Pipeline>,
    tracker: Arc<Tracker>,
    cache: Cache,
    copies: Vec<Copy>,
    /// Where the last packet's key was: as it is larger than most packets, it is neither made nor moved for each.
    key: Option<Box<FlowKey>>,
}

impl Forwarder {
    /// That of one of so many threads.
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        tracker: Arc<Tracker>,
        caching: Caching,
        threads: NonZeroUsize,
        seed: u64,
    ) -> Self {
        let cache = Cache::new(caching, threads, seed);
        Self { pipeline, tracker, cache, copies: Vec::new(), key: None }
    }

    /// A frame came in at a port. `known` is what is known of it besides, as of the tunnel that it came by.
    pub fn forward(
        &mut self,
        now: Time,
        port: u32,
        known: &FlowKey,
        frame: Frame<'_>,
        out: &mut impl Output,
    ) {
        let mut key = self.key.take().unwrap_or_default();
        key.as_mut().clone_from(known);
        key.set(Field::IN_PORT, port.into());
        let mut packet = Packet { frame, key, layers: Layers::default() };
        packet.look_again();
        let mut left = MAX_RECIRCULATIONS;
        self.run(&mut packet, None, now, out, &mut left);
        self.key = Some(packet.key);
        self.run_copies(now, out, &mut left);
    }

    /// Carries out actions on a frame, as if it had come in at a port.
    pub fn carry_out(
        &mut self,
        now: Time,
        port: u32,
        actions: &[Action],
        frame: Frame<'_>,
        out: &mut impl Output,
    ) {
        let mut key = Box::new(FlowKey::EMPTY);
        key.set(Field::IN_PORT, port.into());
        let mut packet = Packet { frame, key, layers: Layers::default() };
        packet.look_again();
        let decision = Translation::of_actions(&self.pipeline, &packet.key, actions, now);
        let bytes = packet.frame.bytes().len() as u64;
        self.pipeline.credit(&decision.credits, crate::Traffic { packets: 1, bytes }, now);
        let mut left = MAX_RECIRCULATIONS;
        let mut execution = Execution { out, now, tracker: &self.tracker, copies: &mut self.copies };
        if let Some(frozen) = execution.run(&decision.steps, &mut packet) {
            packet.thaw(&frozen);
            self.run(&mut packet, Some(frozen), now, out, &mut left);
        }
        self.run_copies(now, out, &mut left);
    }

    fn run(
        &mut self,
        packet: &mut Packet<'_>,
        mut rest: Option<Arc<Frozen>>,
        now: Time,
        out: &mut impl Output,
        left: &mut usize,
    ) {
        loop {
            let bytes = packet.frame.bytes().len();
            let decision: &Decision =
                self.cache.decide(&self.pipeline, &packet.key, bytes, rest.as_deref(), now);
            let mut execution = Execution { out, now, tracker: &self.tracker, copies: &mut self.copies };
            let Some(frozen) = execution.run(&decision.steps, packet) else { return };
            if *left == 0 {
                return;
            }
            *left -= 1;
            packet.thaw(&frozen);
            rest = Some(frozen);
        }
    }

    fn run_copies(&mut self, now: Time, out: &mut impl Output, left: &mut usize) {
        while let Some(mut copy) = self.copies.pop() {
            if *left == 0 {
                self.copies.clear();
                return;
            }
            *left -= 1;
            let frozen = copy.frozen.clone();
            let mut packet = copy.packet();
            packet.thaw(&frozen);
            self.run(&mut packet, Some(frozen), now, out, left);
        }
    }

    /// Makes a mistake from now on, so that it shows whether that is found.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self, defect: crate::cache::defect::Defect) {
        self.cache.defect = Some(defect);
    }

    /// What came since this was called last is credited to the flows that it came for.
    pub fn credit(&mut self, now: Time) {
        self.cache.credit(&self.pipeline, now);
    }

    /// Forgets some of what is no longer needed. To be called between packets, again and again; `clock` tells how long it takes.
    pub fn sweep(&mut self, now: Time, clock: impl Fn() -> Time) {
        self.cache.sweep(&self.pipeline, now, clock);
    }

    /// How often decisions were found where.
    pub fn hits(&self) -> Hits {
        self.cache.hits()
    }

    /// What is remembered, in no order that means anything.
    pub fn megaflows(&self) -> impl Iterator<Item = &Arc<Cached>> {
        self.cache.megaflows()
    }

    /// In how many tables a packet is looked for among the megaflows, if no hint is right: its tuples (figure 8).
    pub fn searched(&self, key: &FlowKey) -> usize {
        self.cache.searched(key)
    }

    /// How many megaflows there are, how many masks they have, and how many there may be.
    pub fn sizes(&self) -> (usize, usize, usize) {
        self.cache.sizes()
    }
}
