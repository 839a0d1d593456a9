//! How long processes compute.

use crate::figure::median;
use fulmar_byzantine::Synchronous;
use fulmar_byzantine::adversaries::{Puppets, Setting, Strategy};
use fulmar_byzantine::runs::{Cost, Execution, Protocol};
use fulmar_node::Random;
use std::time::{Duration, Instant};

/// Adversaries, each in turn.
const ADVERSARIES: u64 = 9;

/// A process and the time that it has taken.
#[derive(Clone)]
struct Timed<S> {
    process: S,
    taken: Duration,
}

impl<S: Synchronous> Synchronous for Timed<S> {
    type Message = S::Message;
    type Value = S::Value;

    fn send(&mut self, round: u32) -> S::Message {
        let begin = Instant::now();
        let message = self.process.send(round);
        self.taken += begin.elapsed();
        message
    }

    fn receive(&mut self, round: u32, messages: &[Option<S::Message>]) {
        let begin = Instant::now();
        self.process.receive(round, messages);
        self.taken += begin.elapsed();
    }

    fn decision(&self) -> Option<S::Value> {
        self.process.decision()
    }

    fn has_halted(&self) -> bool {
        self.process.has_halted()
    }
}

impl<S: Cost> Cost for Timed<S> {
    fn nodes(&self) -> u64 {
        self.process.nodes()
    }
}

/// What the busiest process of an execution takes, in microseconds: the median of some adversaries that all lie about nodes among liars.
pub(super) fn microseconds<P: Protocol>(protocol: &P, setting: &Setting<P::Value>) -> f64 {
    let taken = (0..ADVERSARIES).map(|seed| {
        let plan = Strategy::OneExposureARound.plan_of(setting, setting.t, &mut Random::new(seed));
        let make = |me, input| Timed { process: protocol.process(setting, me, input), taken: Duration::ZERO };
        let processes = (0..).zip(&plan.inputs).map(|(me, &input)| make(me, input));
        let mut execution = Execution::new(processes.collect(), plan.lying());
        let mut adversary = Puppets::new(setting, &plan, make);
        while !execution.is_over() {
            execution.step(&mut adversary);
        }
        let busiest = execution.correct().map(|(_, process)| process.taken).max();
        busiest.unwrap_or_default().as_secs_f64() * 1e6
    });
    median(&taken.collect::<Vec<_>>())
}
