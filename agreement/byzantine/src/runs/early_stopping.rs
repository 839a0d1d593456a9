//! The protocol of this crate as trials take it, with what its proof promises of every round.

use super::{Cost, Execution, Inspector, Protocol, rounds};
use crate::adversaries::{Claim, Forge, Origin, Plan, Setting};
use crate::baselines::Sequences;
use crate::check::Checker;
use crate::{Agreement, Bad, Claims, Decision, Defect, Message, Processes, Sequence, Value};
use std::marker::PhantomData;

/// [`Agreement`] as a [`Protocol`]; inputs are [`Decision`]s other than BAD.
#[derive(Clone, Copy, Debug)]
pub struct EarlyStopping<V> {
    defect: Option<Defect>,
    values: PhantomData<V>,
}

impl<V> Default for EarlyStopping<V> {
    fn default() -> Self {
        Self { defect: None, values: PhantomData }
    }
}

impl<V> EarlyStopping<V> {
    /// With a rule broken, for tests of checks.
    #[doc(hidden)]
    pub const fn planted(defect: Defect) -> Self {
        Self { defect: Some(defect), values: PhantomData }
    }
}

impl<V: Value> EarlyStopping<V> {
    /// Every message that a process which lies could send in a round about values: of each node one of the setting's, or nothing; and
    /// no message. Without accusations.
    pub fn every_message(
        &self,
        setting: &Setting<Decision<V>>,
        liar: u8,
        round: usize,
    ) -> Vec<Option<Message<V>>> {
        let mut all = vec![Vec::new()];
        let mut nodes = Sequences::new(setting.n, round - 1);
        while let Some(node) = nodes.current() {
            let node = Sequence::new(node).filter(|node| !node.contains(liar));
            if let Some(node) = node {
                let said = setting.values.iter().map(|&said| Some((node, value(said)))).chain([None]);
                let longer = said.flat_map(|claim| {
                    all.iter().map(move |claims| [claims.as_slice(), claim.as_slice()].concat())
                });
                all = longer.collect();
            }
            nodes.advance();
        }
        let messages = all.into_iter().map(|claims| Message {
            faulty: Processes::default(),
            claims: claims.into_iter().collect(),
            words: Default::default(),
        });
        messages.map(Some).chain([None]).collect()
    }
}

impl<V: Value> Protocol for EarlyStopping<V> {
    type Process = Agreement<V>;
    type Value = Decision<V>;

    fn process(&self, setting: &Setting<Decision<V>>, me: u8, input: Decision<V>) -> Agreement<V> {
        let process =
            Agreement::new(setting.n, setting.t, me.into(), value(input)).expect("settings have n > 3t");
        match self.defect {
            Some(defect) => process.planted(defect),
            None => process,
        }
    }

    /// min(f + 2, t + 1) (Corollary 2).
    fn bound(&self, setting: &Setting<Decision<V>>, lying: usize) -> u32 {
        rounds((lying + 2).min(setting.t + 1))
    }

    fn defaults(&self) -> Option<Vec<Decision<V>>> {
        Some(vec![Decision::Bottom, Decision::Bad])
    }

    fn inspector(
        &self,
        setting: &Setting<Decision<V>>,
        plan: &Plan<Decision<V>>,
    ) -> impl Inspector<Agreement<V>> + Clone {
        let inputs = (0..).zip(plan.inputs.iter().map(|&input| value(input)));
        let lying = plan.lying();
        Checker::new(setting.t, inputs.filter(|&(process, _)| !lying.contains(process)).collect())
    }
}

/// What a process begins with that is to decide on this.
fn value<V>(input: Decision<V>) -> Option<V> {
    match input {
        Decision::Value(value) => Some(value),
        Decision::Bottom | Decision::Bad => None,
    }
}

impl<V: Value> Inspector<Agreement<V>> for Checker<V> {
    fn inspect(&mut self, execution: &Execution<Agreement<V>>) -> Result<(), String> {
        let round = self.round(execution.round(), execution.sent(), execution.processes());
        round.map_err(|violation| violation.to_string())
    }
}

impl<V> Cost for Agreement<V>
where
    V: Value,
{
    fn nodes(&self) -> u64 {
        self.nodes() as u64
    }
}

/// Instance 0 is the agreement on the value, and 1 to 4 are the monitor sequences with their votes, which count as claims of the root.
impl<V: Value> Forge<Decision<V>> for Message<V> {
    fn forge(&mut self, _origin: Origin, lie: &mut dyn FnMut(Claim<'_>, Decision<V>) -> Option<Decision<V>>) {
        let to_decision = |said: Option<V>| said.map_or(Decision::Bottom, Decision::Value);
        self.claims =
            forged(&self.claims, |node, said| lie(Claim { instance: 0, node }, to_decision(said)).map(value));
        for (instance, word) in (1..).zip(&mut self.words) {
            let Some(word) = word else { continue };
            let mut lie = |node: &[u8], is_bad: bool| {
                let truth = if is_bad { Decision::Bad } else { Decision::Bottom };
                lie(Claim { instance, node }, truth).map(|said| said != Decision::Bottom)
            };
            word.vote = word.vote.and_then(|vote| lie(&[], vote));
            for (_, claims) in &mut word.claims {
                *claims = forged(claims, |node, said| {
                    lie(node, said.is_some()).map(|is_bad| is_bad.then_some(Bad))
                });
            }
        }
    }

    fn accuse(&mut self, accused: Processes) {
        self.faulty = accused;
    }
}

fn forged<V: Value>(
    claims: &Claims<V>,
    mut lie: impl FnMut(&[u8], Option<V>) -> Option<Option<V>>,
) -> Claims<V> {
    claims.iter().filter_map(|&(node, said)| Some((node, lie(node.members(), said)?))).collect()
}
