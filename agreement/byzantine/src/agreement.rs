//! One process of the whole protocol.

use crate::dphi::{Dphi, Shape};
use crate::faults::Faults;
use crate::message::SEQUENCES;
use crate::monitor::{Main, Monitor};
use crate::{Defect, MOST_PROCESSES, Message, Processes, Put, Sequence, Synchronous, Value, Wire};

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision<V> {
    /// A value that t + 1 correct processes began with.
    Value(V),
    /// None: the correct processes began with different values.
    Bottom,
    /// None: too many processes were found to be faulty too soon (section 4).
    Bad,
}

impl<V: Wire> Wire for Decision<V> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Bottom => bytes.push(0),
            Self::Value(value) => {
                bytes.push(1);
                value.encode(bytes);
            }
            Self::Bad => bytes.push(2),
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        match u8::decode(bytes)? {
            0 => Some(Self::Bottom),
            1 => V::decode(bytes).map(Self::Value),
            2 => Some(Self::Bad),
            _ => None,
        }
    }
}

/// What processes cannot agree with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgreementError {
    /// Liars could be too many.
    #[error("{n} processes do not survive {t} that lie: there must be more than {}", 3 * t)]
    TooFew {
        /// How many processes there are.
        n: usize,
        /// How many of them may lie.
        t: usize,
    },
    /// There are no numbers for so many.
    #[error("{0} processes: at most {MOST_PROCESSES} can agree")]
    TooMany(usize),
    /// The process is none of them.
    #[error("process {me} of {n}: they are numbered from 0")]
    Stranger {
        /// The process.
        me: usize,
        /// How many there are.
        n: usize,
    },
}

/// A correct process that agrees with others on a value.
#[derive(Clone, Debug)]
pub struct Agreement<V> {
    faults: Faults,
    shape: Shape,
    /// D_t, which agrees on the value.
    main: Dphi<V>,
    monitors: [Monitor; SEQUENCES],
    /// In which round it decided, and in which it halted.
    decided: Option<(Decision<V>, u32)>,
    halted: Option<u32>,
}

impl<V: Value> Agreement<V> {
    /// Process `me` of `n`, of which at most `t` lie. It begins with `input`, or with the default, ⊥, if that is `None`.
    ///
    /// # Errors
    ///
    /// If n ≤ 3t, or n > 64, or `me` ≥ n.
    pub fn new(n: usize, t: usize, me: usize, input: Option<V>) -> Result<Self, AgreementError> {
        if n <= 3 * t {
            return Err(AgreementError::TooFew { n, t });
        }
        if n > MOST_PROCESSES {
            return Err(AgreementError::TooMany(n));
        }
        let process = u8::try_from(me).ok().filter(|_| me < n).ok_or(AgreementError::Stranger { me, n })?;
        let shape = Shape { n, t, phi: t, me: process, defect: None };
        Ok(Self::of(shape, input))
    }

    fn of(shape: Shape, input: Option<V>) -> Self {
        Self {
            faults: Faults::new(shape.n),
            main: Dphi::new(shape.clone(), input),
            monitors: std::array::from_fn(|delay| Monitor::new(&shape, delay)),
            decided: None,
            halted: None,
            shape,
        }
    }

    /// The same with a rule broken, for tests of checks.
    #[doc(hidden)]
    #[must_use]
    pub fn planted(self, defect: Defect) -> Self {
        Self::of(Shape { defect: Some(defect), ..self.shape }, self.main.input())
    }

    /// The same with D_φ in place of D_t, and `known` in F and FA from the beginning: against a (t, φ)-adversary.
    #[cfg(test)]
    pub(crate) fn with_phi(self, phi: usize, known: Processes) -> Self {
        let mut process = Self::of(Shape { phi, ..self.shape }, self.main.input());
        process.faults.found = known;
        process.faults.agreed = known;
        process
    }

    /// F: who it has found to be faulty.
    pub const fn faulty(&self) -> Processes {
        self.faults.found
    }

    /// FA: who it knows all correct processes to have found.
    pub const fn faulty_to_all(&self) -> Processes {
        self.faults.agreed
    }

    /// How many nodes its trees have.
    pub fn nodes(&self) -> usize {
        self.main.size() + self.monitors.iter().map(Monitor::size).sum::<usize>()
    }

    /// What the agreement on the value, D_t, has put out, and in which round. `None` within is ⊥.
    pub const fn output(&self) -> Option<(Option<V>, usize)> {
        self.main.output()
    }

    /// In which round D_t stopped.
    pub const fn stopped(&self) -> Option<usize> {
        self.main.stopped()
    }

    /// RT(σ) in D_t.
    pub fn resolved(&self, sequence: &Sequence) -> Option<Option<V>> {
        self.main.resolved(sequence)
    }

    /// All σ of a level of D_t that are asked about and have no value in RT.
    pub(crate) fn unresolved(&self, level: usize) -> Vec<Sequence> {
        self.main.unresolved(level)
    }

    /// To which node of D_t SPECIAL-BOT still applies.
    pub(crate) fn special_bot(&self) -> Option<Sequence> {
        self.main.special_bot()
    }

    /// What was put into RT of D_t in the last round.
    pub fn puts(&self) -> &[Put<V>] {
        self.main.puts()
    }

    /// In which round it decided.
    pub fn decided(&self) -> Option<u32> {
        self.decided.map(|(_, round)| round)
    }

    /// In which round it halted.
    pub const fn halted(&self) -> Option<u32> {
        self.halted
    }

    /// What is known to be faulty after the lists of all others have come (section 2).
    fn gossip(&mut self, messages: &[Option<Message<V>>]) {
        self.faults.hear(self.shape.me, self.faults.found);
        for (process, message) in (0..).zip(messages) {
            if let Some(message) = message {
                self.faults.hear(process, message.faulty);
            }
        }
        self.faults.count(self.shape.me, self.shape.t);
    }

    /// Global decision and global halting (section 4.3, definitions 2 and 3).
    fn conclude(&mut self, round: u32) {
        let is_bad = self.monitors.iter().any(|monitor| monitor.decision() == Some(true));
        if self.decided.is_none() {
            let decision = if is_bad {
                Some(Decision::Bad)
            } else if self.monitors.iter().all(|monitor| monitor.decision().is_some()) {
                self.main.output().map(|(value, _)| value.map_or(Decision::Bottom, Decision::Value))
            } else {
                None
            };
            self.decided = decision.map(|decision| (decision, round));
        }
        let has_halted_bad = |monitor: &Monitor| monitor.is_halted() && monitor.decision() == Some(true);
        if self.monitors.iter().any(has_halted_bad) || self.monitors.iter().all(Monitor::is_halted) {
            self.halted = Some(round);
        }
    }
}

impl<V: Value> Synchronous for Agreement<V> {
    type Message = Message<V>;
    type Value = Decision<V>;

    fn send(&mut self, round: u32) -> Message<V> {
        let words = self.monitors.each_mut().map(|monitor| monitor.send(round as usize));
        Message { faulty: self.faults.found, claims: self.main.send(), words }
    }

    fn receive(&mut self, round: u32, messages: &[Option<Message<V>>]) {
        if self.has_halted() {
            return;
        }
        self.gossip(messages);
        let faults = &mut self.faults;
        if !self.main.is_stopped() {
            let claims = messages.iter().map(|message| Some(&message.as_ref()?.claims));
            self.main.receive(&claims.collect::<Vec<_>>());
        }
        for monitor in &mut self.monitors {
            monitor.receive(messages);
        }
        loop {
            let faulty = faults.found;
            let found = self.monitors.iter_mut().map(|monitor| monitor.detect(faulty));
            let found = found.fold(self.main.detect(faulty), Processes::union);
            if found.is_empty() {
                break;
            }
            faults.found = faulty.union(found);
        }
        let faulty = faults.found;
        let found = self.monitors.iter_mut().map(|monitor| monitor.resolve(faulty));
        faults.found = found.fold(faulty.union(self.main.resolve(faulty)), Processes::union);
        let main = Main { has_output: self.main.output().is_some(), is_stopped: self.main.is_stopped() };
        for monitor in &mut self.monitors {
            monitor.conclude(round as usize, main, faults.agreed.len(), messages);
        }
        self.conclude(round);
    }

    fn decision(&self) -> Option<Decision<V>> {
        self.decided.map(|(decision, _)| decision)
    }

    fn has_halted(&self) -> bool {
        self.halted.is_some()
    }
}
