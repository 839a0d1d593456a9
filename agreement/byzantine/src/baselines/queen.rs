//! Phase queen (Berman and Garay 1989): t + 1 phases of two rounds, each with a queen; one of them is correct.

use super::vote::{Vote, plurality, with_own};
use crate::runs::Cost;
use crate::{Synchronous, Value};

/// A correct process of phase queen, for n > 4t, with any number of values: who sees more than n/2 + t votes for one sees more
/// than n/2 correct ones, so that all others, the queen among them, see that most are for it.
#[derive(Clone, Debug)]
pub struct Queen<V> {
    t: usize,
    me: usize,
    value: V,
    /// How many said the same in the first round of this phase.
    support: usize,
    decision: Option<V>,
}

impl<V: Value> Queen<V> {
    /// Process `me` of those of which up to `t` may lie.
    pub const fn new(t: usize, me: usize, input: V) -> Self {
        Self { t, me, value: input, support: 0, decision: None }
    }
}

impl<V: Value> Synchronous for Queen<V> {
    type Message = Vote<V>;
    type Value = V;

    fn send(&mut self, round: u32) -> Vote<V> {
        let queen = (round - 1) / 2;
        let is_queen = usize::try_from(queen).is_ok_and(|queen| queen == self.me);
        Vote((!round.is_multiple_of(2) || is_queen).then_some(self.value))
    }

    fn receive(&mut self, round: u32, messages: &[Option<Vote<V>>]) {
        let n = messages.len();
        if !round.is_multiple_of(2) {
            let votes = with_own(messages, self.me, Some(self.value));
            (self.value, self.support) = plurality(votes).expect("there is one's own");
            return;
        }
        let queen = usize::try_from((round - 1) / 2).ok();
        let said = queen.filter(|&queen| queen != self.me).and_then(|queen| messages.get(queen)).copied();
        if let Some(Some(Vote(Some(value)))) = said
            && 2 * self.support <= n + 2 * self.t
        {
            self.value = value;
        }
        if queen == Some(self.t) {
            self.decision = Some(self.value);
        }
    }

    fn decision(&self) -> Option<V> {
        self.decision
    }

    fn has_halted(&self) -> bool {
        self.decision.is_some()
    }
}

impl<V> Cost for Queen<V> {
    fn nodes(&self) -> u64 {
        1
    }
}
