//! What must hold of the state after a round.

use super::{Checker, Property, Violation};
use crate::{Agreement, Decision, Processes, Synchronous, Value};
use std::ops::RangeInclusive;

/// The state after a round.
pub(super) struct Round<'a, V> {
    pub(super) checker: &'a Checker<V>,
    pub(super) round: u32,
    pub(super) processes: &'a [Agreement<V>],
}

impl<V: Value> Round<'_, V> {
    pub(super) fn correct(&self) -> impl Iterator<Item = (u8, &Agreement<V>)> {
        self.checker.correct.iter().map(|process| (process, &self.processes[usize::from(process)]))
    }

    fn violated<T>(&self, property: Property, process: u8, detail: String) -> Result<T, Violation> {
        Err(Violation { property, round: self.round, process: process.into(), detail })
    }

    /// Of how many rounds ago what is said, put or known must have had its effect now: two, and none at the end.
    fn due(&self) -> RangeInclusive<usize> {
        let round = self.round as usize;
        let last = if round > self.checker.phi { round } else { round.saturating_sub(2) };
        round.saturating_sub(2).max(1)..=last
    }

    /// Theorem 2.1 and lemma 2.
    pub(super) fn detection(&self) -> Result<(), Violation> {
        for (p, process) in self.correct() {
            let accused = process.faulty().union(process.faulty_to_all());
            if accused.without(self.checker.correct) != accused {
                return self.violated(Property::NoFalseDetection, p, format!("F is {accused:?}"));
            }
            let missing =
                self.checker.known.last().map(|known| known[usize::from(p)].without(process.faulty_to_all()));
            if missing.is_some_and(|missing| !missing.is_empty()) {
                return self.violated(Property::Gossip, p, format!("{missing:?} left FA"));
            }
            for (q, other) in self.correct().filter(|(_, other)| !other.has_halted() && !process.has_halted())
            {
                let missing = process.faulty_to_all().without(other.faulty());
                if !missing.is_empty() {
                    return self.violated(
                        Property::Gossip,
                        q,
                        format!("{missing:?} are in FA at {p} and not in F"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Theorem 2.2.
    pub(super) fn validity(&self) -> Result<(), Violation> {
        for round in self.due() {
            for (x, process) in self.correct() {
                for (&p, claims) in &self.checker.said[round - 1] {
                    for &(sequence, value) in claims.iter() {
                        let is_coloured = process.resolved(&sequence).is_some();
                        let found = process.resolved(&sequence.then(p));
                        if !is_coloured && found != Some(value) {
                            let detail = format!("{:?} is {found:?}, {p} said {value:?}", sequence.then(p));
                            return self.violated(Property::Validity, x, detail);
                        }
                    }
                }
                let known = self.checker.known.get(round.wrapping_sub(2)).into_iter().flatten();
                let known = known.fold(Processes::default(), |all, &fa| all.union(fa));
                for sequence in process.unresolved(round - 1) {
                    for z in known.iter().filter(|&z| !sequence.contains(z)) {
                        if process.resolved(&sequence.then(z)) != Some(None) {
                            let detail = format!("{z} is in FA, {:?} is not ⊥", sequence.then(z));
                            return self.violated(Property::Validity, x, detail);
                        }
                    }
                }
            }
        }
        let Some(said) = self.checker.said.last() else { return Ok(()) };
        for (x, process) in self.correct() {
            for sequence in process.unresolved(self.round as usize - 1) {
                for p in self.checker.correct.iter().filter(|&p| !sequence.contains(p)) {
                    if said.get(&p).and_then(|claims| claims.get(&sequence)).is_none() {
                        return self.violated(
                            Property::Validity,
                            x,
                            format!("{p} closed {sequence:?}, not resolved here"),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Theorem 2.4.
    pub(super) fn liveness(&self) -> Result<(), Violation> {
        for round in self.due() {
            for (p, puts) in &self.checker.puts[round - 1] {
                for put in puts {
                    if let Some((q, _)) =
                        self.correct().find(|(_, other)| other.resolved(&put.sequence).is_none())
                    {
                        return self.violated(
                            Property::Liveness,
                            q,
                            format!("{put:?} at {p} in round {round}"),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Section 2.1.
    pub(super) fn fixpoint(&self) -> Result<(), Violation> {
        for (p, process) in self.correct() {
            if let Some(sequence) = process.special_bot() {
                return self.violated(Property::Fixpoint, p, format!("{sequence:?} is not resolved to ⊥"));
            }
        }
        Ok(())
    }

    /// The input of all correct processes, if it is one.
    fn common_input(&self) -> Option<Option<V>> {
        let mut inputs = self.checker.inputs.values();
        let first = *inputs.next()?;
        inputs.all(|input| *input == first).then_some(first)
    }

    /// Theorem 3.2 to 3.8 and lemma 1, of D_t.
    pub(super) fn stopping(&self) -> Result<(), Violation> {
        let (t, phi) = (self.checker.t, self.checker.phi);
        // Those that are known beforehand, t − φ, do not count.
        let f = (self.processes.len() - self.checker.correct.len()).saturating_sub(t - phi);
        let bottoms = self.checker.inputs.values().filter(|input| input.is_none()).count();
        let first_stop = self.correct().filter_map(|(_, process)| process.stopped()).min();
        let mut bounds = vec![(phi + 1, phi + 1)];
        if self.common_input().is_some() {
            bounds.push((2, 3));
            if f < 2 {
                bounds.push((f + 1, f + 1));
            }
        }
        if bottoms > t {
            bounds.push((3, 4));
        }
        if f < phi {
            bounds.push((f + 2, f + 2));
        }
        bounds.extend(first_stop.map(|round| (round + 1, round + 2)));
        for (p, process) in self.correct() {
            let output = process.output().map_or(usize::MAX, |(_, round)| round);
            let stopped = process.stopped().unwrap_or(usize::MAX);
            for (put_out_by, stopped_by) in
                bounds.iter().copied().chain([(usize::MAX, output.saturating_add(1))])
            {
                let now = self.round as usize;
                if (now >= put_out_by && output > put_out_by)
                    || (now >= stopped_by.min(phi + 1) && stopped > stopped_by)
                {
                    let detail = format!("must put out by {put_out_by} and stop by {stopped_by}");
                    return self.violated(Property::Stopping, p, detail);
                }
            }
        }
        Ok(())
    }

    /// Theorem 3.1 to 3.3, lemma 4, and multi-valued validity.
    pub(super) fn agreement(&self) -> Result<(), Violation> {
        let value = |decision| match decision {
            Decision::Value(value) => Some(value),
            Decision::Bottom | Decision::Bad => None,
        };
        let outputs = || self.correct().filter_map(|(p, process)| Some((p, process.output()?.0)));
        let decisions = || self.correct().filter_map(|(p, process)| Some((p, process.decision()?)));
        if let Some((p, output)) = outputs().find(|(_, output)| outputs().any(|(_, other)| other != *output))
        {
            return self.violated(Property::Agreement, p, format!("put out {output:?}, and another did not"));
        }
        if let Some((p, decision)) =
            decisions().find(|(_, decision)| decisions().any(|(_, other)| other != *decision))
        {
            return self.violated(
                Property::Agreement,
                p,
                format!("decided {decision:?}, and another did not"),
            );
        }
        let bottoms = self.checker.inputs.values().filter(|input| input.is_none()).count();
        let decided = decisions().map(|(p, decision)| (p, value(decision)));
        for (p, value) in outputs().chain(decided) {
            let having = self.checker.inputs.values().filter(|input| **input == value).count();
            let is_bad = decisions().any(|(_, decision)| decision == Decision::Bad);
            let is_unlike = !is_bad && self.common_input().is_some_and(|common| common != value);
            if is_unlike || (value.is_some() && (having <= self.checker.t || bottoms > self.checker.t)) {
                return self.violated(Property::Inputs, p, format!("{value:?}, with which {having} began"));
            }
        }
        Ok(())
    }

    /// Lemmas 3 and 4, corollaries 2 and 3.
    pub(super) fn halting(&self) -> Result<(), Violation> {
        let (t, f) = (self.checker.t, self.processes.len() - self.checker.correct.len());
        let bound = u32::try_from((f + 2).min(t + 1)).unwrap_or(u32::MAX);
        let first = self.correct().filter_map(|(_, process)| process.halted()).min();
        for (p, process) in self.correct() {
            let decided_by = first.map_or(bound, |first| bound.min(first + 4));
            let halted_by = first.map_or(bound, |first| bound.min(first + 5));
            if (self.round >= decided_by && process.decided().is_none())
                || (self.round >= halted_by && !process.has_halted())
            {
                let detail = format!("must decide by {decided_by} and halt by {halted_by}");
                return self.violated(Property::Halting, p, detail);
            }
        }
        Ok(())
    }
}
