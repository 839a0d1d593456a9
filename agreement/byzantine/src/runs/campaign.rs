//! Many trials, and what they come to.

use super::{Measures, Outcome, Protocol, Violation, trial};
use crate::Value;
use crate::adversaries::{Plan, Setting, Strategy, search, shrink};
use fulmar_node::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A plan that breaks a protocol, and how to find it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure<V> {
    /// How many processes.
    pub n: usize,
    /// The seed, and what was made from it.
    pub seed: u64,
    /// The strategy that made it, or `search`.
    pub origin: String,
    /// The plan, with all that it does not need taken out.
    pub plan: Plan<V>,
    /// What that breaks.
    pub violation: Violation,
}

impl<V: fmt::Debug> fmt::Display for Failure<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, seed, origin, plan, violation } = self;
        writeln!(f, "n = {n}, seed {seed} ({origin}): {violation}")?;
        writeln!(f, "  inputs {:?}, chance {}", plan.inputs, plan.seed)?;
        for liar in &plan.liars {
            writeln!(f, "  process {} lies", liar.process)?;
            for (round, acts) in (1..).zip(&liar.acts).filter(|(_, acts)| !acts.is_empty()) {
                acts.iter().try_for_each(|act| {
                    writeln!(f, "    round {round}: {:?} hear {:?}", act.targets, act.deed)
                })?;
            }
        }
        Ok(())
    }
}

/// What many trials of one protocol come to.
#[derive(Clone, Debug)]
pub struct Tally<V> {
    /// How many trials.
    pub runs: u64,
    /// Those that broke something.
    pub failures: Vec<Failure<V>>,
    /// The last round taken, by t and how many lied.
    pub rounds: BTreeMap<(usize, usize), u32>,
    /// Most rounds taken beyond the bound.
    pub rounds_over_bound: u32,
    /// What was taken at most, by n.
    pub most: BTreeMap<usize, Measures>,
}

impl<V> Default for Tally<V> {
    fn default() -> Self {
        Self {
            runs: 0,
            failures: Vec::new(),
            rounds: BTreeMap::new(),
            rounds_over_bound: 0,
            most: BTreeMap::new(),
        }
    }
}

impl<V> Tally<V> {
    fn count(&mut self, setting: &Setting<V>, lying: usize, outcome: &Outcome<V>) {
        self.join(Self {
            rounds: BTreeMap::from([((setting.t, lying), outcome.halted)]),
            rounds_over_bound: outcome.halted.saturating_sub(outcome.bound),
            most: BTreeMap::from([(setting.n, outcome.measures)]),
            ..Self::default()
        });
    }

    fn fail(&mut self, failure: Failure<V>) {
        if matches!(failure.violation, Violation::Late { .. }) {
            self.rounds_over_bound = self.rounds_over_bound.max(1);
        }
        self.failures.push(failure);
    }

    /// Carries a plan out and counts it; `origin` and `seed` say where it is from.
    pub fn add<P>(&mut self, protocol: &P, setting: &Setting<V>, seed: u64, origin: &str, plan: &Plan<V>)
    where
        P: Protocol<Value = V>,
        V: Value,
    {
        self.runs += 1;
        match trial(protocol, setting, plan) {
            Ok(outcome) => self.count(setting, plan.liars.len(), &outcome),
            Err(_) => self.fail(failure(protocol, setting, seed, origin, plan)),
        }
    }

    /// With all of another.
    pub fn join(&mut self, other: Self) {
        self.runs += other.runs;
        self.failures.extend(other.failures);
        for (key, rounds) in other.rounds {
            let most = self.rounds.entry(key).or_default();
            *most = rounds.max(*most);
        }
        self.rounds_over_bound = self.rounds_over_bound.max(other.rounds_over_bound);
        for (n, measures) in other.most {
            let most = self.most.entry(n).or_default();
            *most = most.max(&measures);
        }
    }
}

/// What a plan breaks, with all that it does not need taken out.
fn failure<P: Protocol>(
    protocol: &P,
    setting: &Setting<P::Value>,
    seed: u64,
    origin: &str,
    plan: &Plan<P::Value>,
) -> Failure<P::Value> {
    let plan = shrink(plan, |plan| trial(protocol, setting, plan).is_err());
    let violation = trial(protocol, setting, &plan).expect_err("what is left fails, too");
    Failure { n: setting.n, seed, origin: origin.into(), plan, violation }
}

/// One trial for each seed, of a strategy that the seed chooses.
pub fn campaign<P: Protocol>(
    protocol: &P,
    setting: &Setting<P::Value>,
    seeds: Range<u64>,
    tally: &mut Tally<P::Value>,
) {
    for seed in seeds {
        let mut random = Random::new(seed);
        let strategy = Strategy::any(&mut random);
        let plan = strategy.plan(setting, &mut random);
        tally.add(protocol, setting, seed, &format!("{strategy:?}"), &plan);
    }
}

/// For each seed a search of so many trials for the plan that makes a tree largest, and of equals the execution longest.
pub fn hunt<P: Protocol>(
    protocol: &P,
    setting: &Setting<P::Value>,
    seeds: Range<u64>,
    tries: usize,
    tally: &mut Tally<P::Value>,
) {
    for seed in seeds {
        let worst = search(setting, seed, tries, |plan| {
            tally.runs += 1;
            let outcome = trial(protocol, setting, plan)?;
            tally.count(setting, plan.liars.len(), &outcome);
            Ok::<_, Violation>(outcome.measures.most_nodes * 64 + u64::from(outcome.halted))
        });
        if let Err((plan, _)) = worst {
            tally.fail(failure(protocol, setting, seed, "search", &plan));
        }
    }
}
