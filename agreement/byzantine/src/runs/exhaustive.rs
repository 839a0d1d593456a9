//! Every adversary of one process in two rounds.

use super::{Adversary, Cost, Execution, Inspector, Protocol, Scene, Verdict, Violation};
use crate::Synchronous;
use crate::adversaries::{Liar, Plan, Setting};

/// What was done, and what that covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Executions that were run and checked.
    pub runs: u64,
    /// Executions that these stand for.
    pub stands_for: u128,
}

/// An execution that breaks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample<V, M> {
    /// Who lies.
    pub liar: u8,
    /// With what each begins.
    pub inputs: Vec<V>,
    /// What each hears of the liar, by round and receiver.
    pub heard: Vec<Vec<Option<M>>>,
    /// What breaks.
    pub violation: Violation,
}

/// What a protocol's processes send.
pub type MessageOf<P> = <<P as Protocol>::Process as Synchronous>::Message;

/// The first that was found.
pub type Found<P> = Box<Counterexample<<P as Protocol>::Value, MessageOf<P>>>;

/// Sends what it is told to.
struct Script<'a, M> {
    by_receiver: Vec<&'a Option<M>>,
}

impl<S: Synchronous> Adversary<S> for Script<'_, S::Message> {
    fn look(&mut self, _scene: &Scene<'_, S>) {}

    fn message(&mut self, _from: u8, to: u8) -> Option<S::Message> {
        self.by_receiver[usize::from(to)].clone()
    }
}

/// Runs a protocol of two rounds with n = 4 and t = 1 against every adversary that holds process `liar`, from all inputs: in each
/// round it sends each receiver one of `messages`, any of them.
///
/// In the first round all combinations are run. In the second, what one receiver hears changes nothing at another, and all that is
/// checked compares at most two processes: so it suffices that each two receivers meet each two messages, and as many executions as
/// there are pairs do that for all receivers at once (a Latin square). Nothing else is divided out: no symmetry of processes or
/// values is made use of.
///
/// `part` of `parts` is run, by the combinations of the first round.
///
/// # Errors
/// The first execution that breaks something.
pub fn exhaustive<P: Protocol>(
    protocol: &P,
    setting: &Setting<P::Value>,
    liar: u8,
    messages: &[Vec<Option<MessageOf<P>>>; 2],
    (part, parts): (u64, u64),
) -> Result<Coverage, Found<P>> {
    assert_eq!((setting.n, setting.t), (4, 1), "of others there are too many, or more rounds");
    let receivers: Vec<usize> = (0..setting.n).filter(|&p| p != usize::from(liar)).collect();
    let silence = None;
    let to_each = |messages| by_process(liar, &silence, messages);
    let mut coverage = Coverage::default();
    let mut number = 0;
    for values in triples(&setting.values) {
        let mut inputs = vec![setting.values[0]; setting.n];
        receivers.iter().zip(values).for_each(|(&receiver, &value)| inputs[receiver] = value);
        let plan = Plan { inputs, liars: vec![Liar { process: liar, acts: Vec::new() }], seed: 0 };
        for first in triples(&messages[0]) {
            number += 1;
            if number % parts != part {
                continue;
            }
            let first = to_each(first);
            let inputs = (0..).zip(&plan.inputs);
            let processes = inputs.map(|(me, &input)| protocol.process(setting, me, input));
            let start = Checked {
                execution: Execution::new(processes.collect(), plan.lying()),
                inspector: protocol.inspector(setting, &plan),
                verdict: Verdict {
                    inputs: &plan.inputs,
                    t: setting.t,
                    defaults: protocol.defaults(),
                    bound: protocol.bound(setting, 1),
                },
            };
            let error = |heard: Vec<&[&Option<_>]>, violation| {
                let heard = heard.iter().map(|round| round.iter().map(|&m| m.clone()).collect()).collect();
                Box::new(Counterexample { liar, inputs: plan.inputs.clone(), heard, violation })
            };
            let middle = start.after(&first).map_err(|violation| error(vec![&first], violation))?;
            let count = messages[1].len();
            for one in 0..count {
                for two in 0..count {
                    let second = to_each([one, two, (one + two) % count].map(|place| &messages[1][place]));
                    middle.after(&second).map_err(|violation| error(vec![&first, &second], violation))?;
                    coverage.runs += 1;
                }
            }
            coverage.stands_for += (count as u128).pow(3);
        }
    }
    Ok(coverage)
}

/// What three receivers get, by process; the liar's place is not looked at.
fn by_process<'a, M>(liar: u8, silence: &'a Option<M>, messages: [&'a Option<M>; 3]) -> Vec<&'a Option<M>> {
    let mut by_receiver = messages.to_vec();
    by_receiver.insert(liar.into(), silence);
    by_receiver
}

/// All triples of items.
fn triples<T>(items: &[T]) -> impl Iterator<Item = [&T; 3]> {
    let pairs = items.iter().flat_map(move |a| items.iter().map(move |b| (a, b)));
    pairs.flat_map(move |(a, b)| items.iter().map(move |c| [a, b, c]))
}

/// An execution and what checks it.
#[derive(Clone)]
struct Checked<'a, S: Synchronous, I> {
    execution: Execution<S>,
    inspector: I,
    verdict: Verdict<'a, S::Value>,
}

impl<S, I> Checked<'_, S, I>
where
    S: Synchronous + Cost + Clone,
    I: Inspector<S> + Clone,
{
    /// One round later.
    fn after(&self, heard: &[&Option<S::Message>]) -> Result<Self, Violation> {
        let mut next = self.clone();
        next.execution.step(&mut Script { by_receiver: heard.to_vec() });
        next.verdict.of(&next.execution)?;
        next.inspector.inspect(&next.execution).map_err(Violation::Invariant)?;
        Ok(next)
    }
}
