//! What must hold of all correct processes after every round (sections 3 and 4).
//!
//! Theorem 2 is checked of D_t, or what runs in its place; of the monitors, what they decide and when they halt.

mod round;

use crate::{Agreement, Claims, Decision, Message, Processes, Put, Rule, Sequence, Synchronous, Value};
use round::Round;
use std::collections::{BTreeMap, BTreeSet};

/// A property of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Property {
    /// Theorem 2.1.
    #[error("no correct process is found to be faulty (theorem 2.1)")]
    NoFalseDetection,
    /// Lemma 2.
    #[error("who is in FA somewhere is in F everywhere, and FA never shrinks (lemma 2)")]
    Gossip,
    /// Theorem 2.2.
    #[error("what a correct process says is resolved to that, two rounds later (theorem 2.2)")]
    Validity,
    /// Theorem 2.3 (a).
    #[error("what is RT-confirmed on a value is put to ⊥ by SPECIAL-BOT only (theorem 2.3 a)")]
    Confirmation,
    /// Theorem 2.3, (b) to (d).
    #[error("no node is put to two values (theorem 2.3)")]
    Safety,
    /// Theorem 2.4.
    #[error("what is resolved at one is resolved at all, two rounds later (theorem 2.4)")]
    Liveness,
    /// Section 2.1: the SPECIAL-BOT RULE, without which trees are not polynomial (lemma 5).
    #[error("rules are applied until none holds, SPECIAL-BOT too (section 2.1)")]
    Fixpoint,
    /// Theorem 3.1 and Lemma 4.
    #[error("all put out, and decide, the same (theorem 3.1, lemma 4)")]
    Agreement,
    /// Theorem 3.2 and 3.3, section 1.
    #[error(
        "what is put out is what all, or at least t + 1, correct processes began with (theorem 3.2, 3.3)"
    )]
    Inputs,
    /// Theorem 3.2 to 3.8, and Lemma 1.
    #[error("D_t puts out and stops in time (theorem 3.2 to 3.8, lemma 1)")]
    Stopping,
    /// Lemma 3 and Lemma 4.
    #[error("all halt by round min(f + 2, t + 1), and within five rounds of the first (lemmas 3 and 4)")]
    Halting,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("round {round}, process {process}: {property}; {detail}")]
pub struct Violation {
    /// Which.
    pub property: Property,
    /// After which round.
    pub round: u32,
    /// Of which process.
    pub process: usize,
    /// What is there instead.
    pub detail: String,
}

/// Theorem 2.3 (a): no node is in both.
#[derive(Clone, Debug, Default)]
struct Confirmations {
    /// Where the RESOLVE RULE put the node above to a value, with them as RT-confirmed.
    confirmed: BTreeSet<Sequence>,
    /// Put to ⊥, and not by SPECIAL-BOT.
    bottoms: BTreeSet<Sequence>,
}

impl Confirmations {
    /// Takes in what was put: which node is in both by that, if one is.
    fn opposed<V>(&mut self, put: &Put<V>) -> Option<Sequence> {
        if put.value.is_some() {
            let confirmed = put.confirmed.iter().map(|v| put.sequence.then(v)).collect::<BTreeSet<_>>();
            let opposed = confirmed.intersection(&self.bottoms).next().copied();
            self.confirmed.extend(confirmed);
            return opposed;
        }
        let is_bottom = put.rule != Rule::SpecialBot && self.bottoms.insert(put.sequence);
        (is_bottom && self.confirmed.contains(&put.sequence)).then_some(put.sequence)
    }
}

/// What all correct processes of a run did so far.
#[derive(Clone, Debug)]
pub struct Checker<V> {
    t: usize,
    /// Of what D_φ the runs are: t, but in tests of D_φ alone.
    pub(crate) phi: usize,
    correct: Processes,
    /// What each correct process began with.
    inputs: BTreeMap<u8, Option<V>>,
    /// What each correct process said in each round.
    said: Vec<BTreeMap<u8, Claims<V>>>,
    /// What each put into RT in each round.
    puts: Vec<BTreeMap<u8, Vec<Put<V>>>>,
    /// What was put into RT anywhere in earlier rounds.
    settled: BTreeSet<Sequence>,
    /// PT of all.
    put: BTreeMap<Sequence, (u8, Put<V>)>,
    /// Who has which children of a node in PT, to ⊥ and to others.
    children: BTreeMap<(Sequence, u8), [usize; 2]>,
    /// What was put, to other than ⊥ or to ⊥ and not by SPECIAL-BOT: whose children must not be otherwise.
    bound: BTreeMap<Sequence, [bool; 2]>,
    confirmations: Confirmations,
    /// FA of all, by round.
    known: Vec<Vec<Processes>>,
}

impl<V: Value> Checker<V> {
    /// Checks a run in which at most `t` of the processes may lie, and those of `inputs` do not.
    pub fn new(t: usize, inputs: BTreeMap<u8, Option<V>>) -> Self {
        Self {
            t,
            phi: t,
            correct: inputs.keys().copied().collect(),
            inputs,
            said: Vec::new(),
            puts: Vec::new(),
            settled: BTreeSet::new(),
            put: BTreeMap::new(),
            children: BTreeMap::new(),
            bound: BTreeMap::new(),
            confirmations: Confirmations::default(),
            known: Vec::new(),
        }
    }

    /// Checks all after a round, in which they had sent `sent`. Places of liars are not looked at.
    ///
    /// # Errors
    ///
    /// If a property does not hold.
    pub fn round(
        &mut self,
        round: u32,
        sent: &[Option<Message<V>>],
        processes: &[Agreement<V>],
    ) -> Result<(), Violation> {
        let correct = self.correct;
        let claims = |p: u8| Some((p, sent[usize::from(p)].as_ref()?.claims.clone()));
        self.said.push(correct.iter().filter_map(claims).collect());
        // A process that has halted puts nothing more, but what it put last is still there to be seen.
        let has_put = |p: &u8| processes[usize::from(*p)].halted().is_none_or(|halted| halted == round);
        let puts = correct.iter().filter(has_put).map(|p| (p, processes[usize::from(p)].puts().to_vec()));
        self.puts.push(puts.collect());
        let run = Round { checker: self, round, processes };
        run.detection()?;
        // Whoever halts with BAD breaks off D_t.
        if !run.correct().any(|(_, process)| process.decision() == Some(Decision::Bad)) {
            run.validity()?;
            run.liveness()?;
            run.fixpoint()?;
            run.stopping()?;
        }
        run.agreement()?;
        run.halting()?;
        self.known.push(processes.iter().map(Agreement::faulty_to_all).collect());
        self.safety(round)
    }

    /// Theorem 2.3, of nodes below none that was resolved somewhere in an earlier round: who has resolved that says
    /// nothing of them any more, its silence is taken for different values, and they are about to be coloured (docs/byzantine.md).
    fn safety(&mut self, round: u32) -> Result<(), Violation> {
        for (&process, puts) in self.puts.last().into_iter().flatten() {
            for put in puts.iter().filter(|put| put.rule != Rule::LastRound) {
                if std::iter::successors(put.sequence.parent(), Sequence::parent)
                    .any(|above| self.settled.contains(&above))
                {
                    continue;
                }
                let violation = |detail: String| Violation {
                    property: Property::Safety,
                    round,
                    process: usize::from(process),
                    detail: format!("{put:?} {detail}"),
                };
                let (first, before) = *self.put.entry(put.sequence).or_insert((process, *put));
                if before.value != put.value {
                    return Err(violation(format!("but {before:?} at {first}")));
                }
                let is_bottom = put.value.is_none();
                if let Some(opposed) = self.confirmations.opposed(put) {
                    let detail = format!("but {opposed:?} is RT-confirmed, and put to ⊥");
                    return Err(Violation { property: Property::Confirmation, ..violation(detail) });
                }
                if put.sequence.is_empty() {
                    continue;
                }
                if !is_bottom || put.rule != Rule::SpecialBot {
                    self.bound.entry(put.sequence).or_default()[usize::from(is_bottom)] = true;
                }
                if let Some(parent) = put.sequence.parent() {
                    self.children.entry((parent, process)).or_default()[usize::from(is_bottom)] += 1;
                }
                for node in put.sequence.parent().into_iter().chain([put.sequence]) {
                    let Some(&[to_value, to_bottom]) = self.bound.get(&node) else { continue };
                    for q in self.correct.iter() {
                        let [values, bottoms] = self.children.get(&(node, q)).copied().unwrap_or_default();
                        if (to_value && bottoms > self.t) || (to_bottom && values > self.t) {
                            return Err(violation(format!(
                                "{node:?} has at {q} {values} children put to values and {bottoms} to ⊥"
                            )));
                        }
                    }
                }
            }
        }
        self.settled.extend(
            self.puts.last().into_iter().flatten().flat_map(|(_, puts)| puts).map(|put| put.sequence),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No plan was found that breaks this and nothing before it: so what would is made by hand.
    #[test]
    fn what_is_confirmed_and_bottom_is_noticed_in_either_order() {
        let above = Sequence::EMPTY.then(3);
        let resolved =
            |value| Put { confirmed: [1, 2].into_iter().collect(), ..Put::new(above, value, Rule::Resolve) };
        let bottom = |rule| Put::<u8>::new(above.then(2), None, rule);
        let opposed = |puts: [Put<u8>; 2]| {
            let mut all = Confirmations::default();
            puts.map(|put| all.opposed(&put))
        };
        let node = Some(above.then(2));
        assert_eq!(opposed([resolved(Some(5)), bottom(Rule::Relaxed)]), [None, node]);
        assert_eq!(opposed([bottom(Rule::ItToRt), resolved(Some(5))]), [None, node]);
        assert_eq!(opposed([bottom(Rule::SpecialBot), resolved(Some(5))]), [None, None]);
        assert_eq!(opposed([bottom(Rule::Relaxed), resolved(None)]), [None, None]);
    }
}
