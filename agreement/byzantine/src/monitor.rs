//! One sequence of monitors (section 4.1): stops everything when too many processes are found to be faulty too soon.
//!
//! Every four rounds, a sequence agrees on whether that is so, by a D_φ of its own with inputs BAD or ⊥. The agreement on the value, D_t,
//! counts as a protocol invoked before the others in every sequence, not in the first alone: otherwise the others would have nothing to
//! wait for, and halt before they have monitored anything (docs/byzantine.md).

use crate::dphi::{Dphi, Shape};
use crate::message::{Bad, SEQUENCES, Word};
use crate::{Message, Processes, Value};

/// What a sequence knows of D_t at the end of a round.
#[derive(Clone, Copy)]
pub(crate) struct Main {
    pub(crate) has_output: bool,
    pub(crate) is_stopped: bool,
}

/// A protocol that the sequence invoked.
#[derive(Clone, Debug)]
struct Invoked {
    /// In which round.
    start: u8,
    protocol: Dphi<Bad>,
}

impl Invoked {
    /// Whether it put out BAD.
    fn is_bad(&self) -> bool {
        matches!(self.protocol.output(), Some((Some(Bad), _)))
    }
}

/// One process of a monitor sequence.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    shape: Shape,
    /// How many rounds later than the first sequence it begins.
    delay: usize,
    invoked: Vec<Invoked>,
    /// v is BAD, and not ⊥.
    is_bad: bool,
    /// Whether so few say BAD that the next protocol will put out ⊥.
    early: bool,
    /// Who said last that it was early.
    early_at: Processes,
    /// How many were early or had halted at the end of the last round.
    support: usize,
    /// Whether the decision is BAD, once there is one.
    decision: Option<bool>,
    /// In which round it halts at the latest.
    halt_by: usize,
    is_halted: bool,
}

impl Monitor {
    pub(crate) fn new(shape: &Shape, delay: usize) -> Self {
        Self {
            shape: shape.clone(),
            delay,
            invoked: Vec::new(),
            is_bad: false,
            early: false,
            early_at: Processes::default(),
            support: 0,
            decision: None,
            halt_by: shape.t + 1,
            is_halted: false,
        }
    }

    /// r̄, from 1 to 4; 0 before the sequence begins.
    const fn phase(&self, round: usize) -> usize {
        if round > self.delay { (round - self.delay - 1) % SEQUENCES + 1 } else { 0 }
    }

    /// Lines 1, 7 and 12: invokes the next protocol, and says what is to be said. `None` once it has halted.
    ///
    /// The first time r̄ = 1 there was no test yet, so all inputs would be ⊥: then none is invoked.
    pub(crate) fn send(&mut self, round: usize) -> Option<Word> {
        if self.is_halted {
            return None;
        }
        let phase = self.phase(round);
        if phase == 1 && round > self.delay + 1 && round + 1 < self.shape.t {
            let shape = Shape { phi: self.shape.t + 1 - round, ..self.shape.clone() };
            let protocol = Dphi::new(shape, self.is_bad.then_some(Bad));
            let start = u8::try_from(round).expect("a round is at most t + 1");
            self.invoked.push(Invoked { start, protocol });
        }
        let running = self.invoked.iter().filter(|invoked| !invoked.protocol.is_stopped());
        Some(Word {
            claims: running.map(|invoked| (invoked.start, invoked.protocol.send())).collect(),
            vote: match phase {
                3 => Some(self.is_bad),
                4 => Some(self.early),
                _ => None,
            },
        })
    }

    /// The protocols that it runs.
    fn running(&mut self) -> impl Iterator<Item = &mut Invoked> {
        let is_running = !self.is_halted;
        self.invoked.iter_mut().filter(move |invoked| is_running && !invoked.protocol.is_stopped())
    }

    /// Takes in what was said in a round.
    pub(crate) fn receive<V: Value>(&mut self, messages: &[Option<Message<V>>]) {
        let delay = self.delay;
        for invoked in self.running() {
            let claims = messages.iter().map(|message| {
                let word = message.as_ref()?.words[delay].as_ref()?;
                word.claims.iter().find(|(start, _)| *start == invoked.start).map(|(_, claims)| claims)
            });
            invoked.protocol.receive(&claims.collect::<Vec<_>>());
        }
    }

    /// Who its protocols find to be faulty.
    pub(crate) fn detect(&mut self, faulty: Processes) -> Processes {
        self.running()
            .fold(Processes::default(), |found, invoked| found.union(invoked.protocol.detect(faulty)))
    }

    /// Resolves what its protocols can resolve.
    pub(crate) fn resolve(&mut self, faulty: Processes) -> Processes {
        self.running()
            .fold(Processes::default(), |found, invoked| found.union(invoked.protocol.resolve(faulty)))
    }

    /// Lines 4 to 6, 9 to 11 and 14 to 16, and the halting rules, at the end of a round.
    pub(crate) fn conclude<V: Value>(
        &mut self,
        round: usize,
        main: Main,
        known_faulty: usize,
        messages: &[Option<Message<V>>],
    ) {
        if self.is_halted {
            return;
        }
        let words = || {
            let others = (0_u8..).zip(messages).filter(|(process, _)| *process != self.shape.me);
            others.map(|(process, message)| {
                (process, message.as_ref().and_then(|message| message.words[self.delay].as_ref()))
            })
        };
        let halted =
            words().filter(|(_, word)| word.is_none()).map(|(process, _)| process).collect::<Processes>();
        let said = words().filter_map(|(process, word)| Some((process, word?.vote?))).collect::<Vec<_>>();
        let phase = self.phase(round);
        match phase {
            2 => self.is_bad = known_faulty >= round + 3,
            3 => {
                let bad = said.iter().filter(|(_, is_bad)| *is_bad).count() + usize::from(self.is_bad);
                self.early = bad <= self.shape.t;
            }
            4 => {
                let mut at = self.early_at;
                for &(process, early) in said.iter().chain([&(self.shape.me, self.early)]) {
                    at = at.without([process].into_iter().collect());
                    if early {
                        at.insert(process);
                    }
                }
                self.early_at = at;
                let all_put_out =
                    main.has_output && self.invoked.iter().all(|i| i.protocol.output().is_some());
                if self.early_at.len() > self.shape.t || all_put_out {
                    self.is_bad = false;
                }
            }
            _ => {}
        }
        let before = std::mem::replace(&mut self.support, self.early_at.union(halted).len());
        self.halt(round, phase, main, before);
    }

    /// Section 4.2: H_BAD and H_1 to H_4. Before the sequence begins, D_t alone is waited for.
    fn halt(&mut self, round: usize, phase: usize, main: Main, support_before: usize) {
        let (quorum, t) = (self.shape.n - self.shape.t, self.shape.t);
        let stopped =
            |invoked: &[Invoked]| main.is_stopped && invoked.iter().all(|i| i.protocol.is_stopped());
        let all_stopped = stopped(&self.invoked);
        // Only the protocol that was invoked in this turn of the sequence did not stop.
        let only_latest = self.invoked.split_last().is_some_and(|(last, others)| {
            !last.protocol.is_stopped() && usize::from(last.start) + phase == round + 1 && stopped(others)
        });
        let mut halts = all_stopped && (phase < 4 || self.support >= quorum);
        if matches!(phase, 1 | 2) && only_latest {
            let support = if phase == 1 { self.support } else { support_before };
            halts |= support >= quorum;
            if support > t {
                self.decide();
                self.halt_by = self.halt_by.min(round + 3 - phase);
            }
        }
        if self.invoked.iter().any(|invoked| invoked.is_bad() && invoked.protocol.is_stopped()) {
            halts = true;
        } else if self.invoked.iter().any(Invoked::is_bad) {
            self.decide();
            self.halt_by = self.halt_by.min(round + 2);
        }
        if halts || round >= self.halt_by {
            self.decide();
            self.is_halted = true;
        }
    }

    /// Definition 1: decides BAD if a protocol of the sequence put that out.
    fn decide(&mut self) {
        let is_bad = self.invoked.iter().any(Invoked::is_bad);
        self.decision.get_or_insert(is_bad);
    }

    /// Whether it decided BAD, once it has decided.
    pub(crate) const fn decision(&self) -> Option<bool> {
        self.decision
    }

    pub(crate) const fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// How many nodes the trees of its protocols have.
    pub(crate) fn size(&self) -> usize {
        self.invoked.iter().map(|invoked| invoked.protocol.size()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Claims;
    use fulmar_node::Random;

    /// Runs sequence `delay` at all of 25 processes beside a D_t that stops at each process by `stops`, each knowing so many to be faulty;
    /// returns in which round each halted, and what it decided.
    fn run(delay: usize, stops: &[usize; 25], known: &[usize; 25]) -> Vec<(usize, Option<bool>)> {
        let shape = |me| Shape { n: 25, t: 8, phi: 8, me, defect: None };
        let mut monitors = (0..25).map(|me| Monitor::new(&shape(me), delay)).collect::<Vec<_>>();
        let mut halted = vec![(0, None); 25];
        for round in 1..=9 {
            let messages = monitors.iter_mut().map(|monitor| {
                let mut words = [const { None }; SEQUENCES];
                words[delay] = monitor.send(round);
                Some(Message::<u8> { faulty: Processes::default(), claims: Claims::default(), words })
            });
            let messages = messages.collect::<Vec<_>>();
            for (me, monitor) in monitors.iter_mut().enumerate().filter(|(_, monitor)| !monitor.is_halted()) {
                monitor.receive(&messages);
                assert!(monitor.detect(Processes::default()).is_empty());
                monitor.resolve(Processes::default());
                let main = Main { has_output: round + 1 >= stops[me], is_stopped: round >= stops[me] };
                monitor.conclude(round, main, known[me], &messages);
                if monitor.is_halted() {
                    halted[me] = (round, monitor.decision());
                }
            }
        }
        halted
    }

    #[test]
    fn all_halt_with_bad_when_all_know_of_too_many() {
        assert_eq!(run(0, &[9; 25], &[8; 25]), [(5, Some(true)); 25]);
        assert_eq!(run(1, &[9; 25], &[8; 25]), [(6, Some(true)); 25]);
    }

    #[test]
    fn none_halts_before_d_t_when_few_are_known() {
        for delay in 0..SEQUENCES {
            assert_eq!(run(delay, &[7; 25], &[0; 25]), [(7, Some(false)); 25], "sequence {delay}");
        }
    }

    #[test]
    fn all_decide_the_same_whoever_knows_of_too_many() {
        let mut random = Random::new(6);
        let mut decisions = [0; 2];
        for _ in 0..300 {
            // D_t stops everywhere within two rounds (theorem 3.8), and a few may know of too many.
            let (first, knowing) = (3 + random.index(5), random.index(26));
            let stops = std::array::from_fn(|_| first + random.index(2));
            let known = std::array::from_fn(|me| if me < knowing { 8 } else { 0 });
            let halted = run(random.index(SEQUENCES), &stops, &known);
            assert!(
                halted.iter().all(|(round, decision)| *round > 0 && *decision == halted[0].1),
                "{halted:?}"
            );
            decisions[usize::from(halted[0].1 == Some(true))] += 1;
        }
        assert!(decisions[0] > 0 && decisions[1] > 0, "{decisions:?}");
    }
}
