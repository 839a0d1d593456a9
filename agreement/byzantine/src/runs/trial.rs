//! One plan against one protocol.

use super::{Cost, Execution, Measures, Verdict, Violation};
use crate::adversaries::{Forge, Plan, Puppets, Setting};
use crate::{Synchronous, Value};

/// A protocol, as trials need it.
pub trait Protocol {
    /// Its correct processes.
    type Process: Synchronous<Value = Self::Value, Message: Forge<Self::Value>> + Cost + Clone;
    /// What they agree on.
    type Value: Value;

    /// Process `me` of a setting's.
    fn process(&self, setting: &Setting<Self::Value>, me: u8, input: Self::Value) -> Self::Process;

    /// The last round that correct processes may take when so many lie.
    fn bound(&self, setting: &Setting<Self::Value>, lying: usize) -> u32;

    /// On what it may decide though not t + 1 correct processes began with it; `None` if that is anything.
    fn defaults(&self) -> Option<Vec<Self::Value>>;

    /// Looks at a plan's execution round by round.
    fn inspector(
        &self,
        setting: &Setting<Self::Value>,
        plan: &Plan<Self::Value>,
    ) -> impl Inspector<Self::Process> + Clone;
}

/// Looks at an execution after each round for what the protocol alone promises.
pub trait Inspector<S: Synchronous> {
    /// Called after each round, the first included.
    ///
    /// # Errors
    /// What is broken, for people.
    fn inspect(&mut self, execution: &Execution<S>) -> Result<(), String>;
}

/// For protocols that promise nothing beyond agreement.
impl<S: Synchronous> Inspector<S> for () {
    fn inspect(&mut self, _execution: &Execution<S>) -> Result<(), String> {
        Ok(())
    }
}

/// What came of a plan that broke nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<V> {
    /// The decision; `None` if all lie.
    pub decision: Option<V>,
    /// In which round the last correct process decided.
    pub decided: u32,
    /// At the end of which round the last one halted.
    pub halted: u32,
    /// The last round that it may have taken.
    pub bound: u32,
    /// What it took.
    pub measures: Measures,
}

/// Carries a plan out to the end, and checks it after each round.
///
/// # Errors
/// The first [`Violation`].
pub fn trial<P: Protocol>(
    protocol: &P,
    setting: &Setting<P::Value>,
    plan: &Plan<P::Value>,
) -> Result<Outcome<P::Value>, Violation> {
    let make = |me, input| protocol.process(setting, me, input);
    let inputs = (0..).zip(&plan.inputs);
    let processes = inputs.map(|(me, &input)| make(me, input));
    let mut execution = Execution::new(processes.collect(), plan.lying());
    let mut adversary = Puppets::new(setting, plan, make);
    let bound = protocol.bound(setting, plan.liars.len());
    let verdict = Verdict { inputs: &plan.inputs, t: setting.t, defaults: protocol.defaults(), bound };
    let mut inspector = protocol.inspector(setting, plan);
    while !execution.is_over() {
        execution.step(&mut adversary);
        verdict.of(&execution)?;
        inspector.inspect(&execution).map_err(Violation::Invariant)?;
    }
    let last = |round: &dyn Fn(usize) -> Option<u32>| execution.correct().filter_map(|(p, _)| round(p)).max();
    Ok(Outcome {
        decision: execution.correct().find_map(|(_, process)| process.decision()),
        decided: last(&|p| execution.decided_in(p)).unwrap_or(0),
        halted: last(&|p| execution.halted_in(p)).unwrap_or(0),
        bound,
        measures: *execution.measures(),
    })
}
