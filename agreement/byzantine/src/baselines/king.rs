//! Phase king (Berman, Garay and Perry 1989): t + 1 phases of three rounds, each with a king; one of them is correct.

use super::vote::{Vote, plurality, with_own};
use crate::runs::Cost;
use crate::{Synchronous, Value};

/// A correct process of phase king, for n > 3t, with any number of values: two correct processes that are not undecided after
/// the first round of a phase have the same value, as any two sets of n − t processes have a correct one in common.
#[derive(Clone, Debug)]
pub struct King<V> {
    t: usize,
    me: usize,
    default: V,
    /// `None` while undecided.
    value: Option<V>,
    /// How many said the same in the second round of this phase.
    support: usize,
    decision: Option<V>,
}

impl<V: Value> King<V> {
    /// Process `me` of those of which up to `t` may lie. `default` is what an undecided king stands for.
    pub const fn new(t: usize, me: usize, input: V, default: V) -> Self {
        Self { t, me, default, value: Some(input), support: 0, decision: None }
    }
}

impl<V: Value> Synchronous for King<V> {
    type Message = Vote<V>;
    type Value = V;

    fn send(&mut self, round: u32) -> Vote<V> {
        let king = (round - 1) / 3;
        let is_king = usize::try_from(king).is_ok_and(|king| king == self.me);
        Vote(if round.is_multiple_of(3) && !is_king { None } else { self.value })
    }

    fn receive(&mut self, round: u32, messages: &[Option<Vote<V>>]) {
        let n = messages.len();
        let most = plurality(with_own(messages, self.me, self.value));
        match round % 3 {
            1 => self.value = most.filter(|&(_, count)| count >= n - self.t).map(|(value, _)| value),
            2 => {
                let believed = most.filter(|&(_, count)| count > self.t);
                self.value = believed.map(|(value, _)| value);
                self.support = believed.map_or(0, |(_, count)| count);
            }
            _ => {
                let king = usize::try_from((round - 1) / 3).ok();
                let said = king.filter(|&king| king != self.me).and_then(|king| messages.get(king)).copied();
                if self.support < n - self.t {
                    let said = said.map_or(self.value, |said| said.and_then(|vote| vote.0));
                    self.value = Some(said.unwrap_or(self.default));
                }
                if king == Some(self.t) {
                    self.decision = self.value;
                }
            }
        }
    }

    fn decision(&self) -> Option<V> {
        self.decision
    }

    fn has_halted(&self) -> bool {
        self.decision.is_some()
    }
}

impl<V> Cost for King<V> {
    fn nodes(&self) -> u64 {
        1
    }
}
