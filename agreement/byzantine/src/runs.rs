//! Executions in the synchronous model, against one adversary that holds all processes that lie.
//!
//! The adversary is omniscient and rushing: it reads the state of every correct process, and what they send in a round, before it
//! chooses what its own processes send in that round, to each receiver another message if it likes. It cannot change who sent a
//! message, nor keep a correct process from being heard.

mod campaign;
mod early_stopping;
mod exhaustive;
mod measure;
#[cfg(test)]
mod tests;
mod trial;
mod verdict;

pub use campaign::{Failure, Tally, campaign, hunt};
pub use early_stopping::EarlyStopping;
pub use exhaustive::{Counterexample, Coverage, Found, MessageOf, exhaustive};
pub use measure::{Cost, Measures};
pub use trial::{Inspector, Outcome, Protocol, trial};
pub use verdict::{Verdict, Violation};

use crate::{Processes, Synchronous, Wire};

/// What the adversary sees before it chooses.
#[derive(Debug)]
pub struct Scene<'a, S: Synchronous> {
    /// From 1.
    pub round: u32,
    /// All processes, after they have sent; those of the adversary are not what they seem.
    pub processes: &'a [S],
    /// What the correct ones send to all, by sender.
    pub sent: &'a [Option<S::Message>],
}

/// Who holds the processes that lie.
pub trait Adversary<S: Synchronous> {
    /// Looks at a round, which comes after those it has seen.
    fn look(&mut self, scene: &Scene<'_, S>);

    /// What one of its processes sends to a correct one in that round, if it sends anything. Asked once of each pair, receiver by
    /// receiver.
    fn message(&mut self, from: u8, to: u8) -> Option<S::Message>;
}

/// Processes of which some are correct and go through the rounds together.
#[derive(Clone, Debug)]
pub struct Execution<S: Synchronous> {
    /// Where the adversary's are, one that does nothing keeps the place.
    processes: Vec<S>,
    lying: Processes,
    round: u32,
    /// In the last round, by sender.
    sent: Vec<Option<S::Message>>,
    decided_in: Vec<Option<u32>>,
    halted_in: Vec<Option<u32>>,
    measures: Measures,
}

impl<S: Synchronous + Cost> Execution<S> {
    /// Before the first round; what is given of the processes that lie is not made use of.
    pub fn new(processes: Vec<S>, lying: Processes) -> Self {
        let nobody = vec![None; processes.len()];
        Self {
            sent: processes.iter().map(|_| None).collect(),
            processes,
            lying,
            round: 0,
            decided_in: nobody.clone(),
            halted_in: nobody,
            measures: Measures::default(),
        }
    }

    /// One round: all send, then all receive.
    pub fn step(&mut self, adversary: &mut impl Adversary<S>) {
        self.round += 1;
        let (round, lying) = (self.round, self.lying);
        let is_correct = |process: u8| !lying.contains(process);
        let senders = (0..).zip(&mut self.processes);
        self.sent =
            senders.map(|(p, process)| is_correct(p).then(|| say(process, round)).flatten()).collect();
        for message in self.sent.iter().flatten() {
            self.measures.sent(message);
        }
        adversary.look(&Scene { round, processes: &self.processes, sent: &self.sent });
        let mut messages = self.sent.clone();
        for (to, process) in (0..).zip(&mut self.processes).filter(|&(p, _)| is_correct(p)) {
            if process.has_halted() {
                continue;
            }
            for from in lying.iter() {
                messages[usize::from(from)] = adversary.message(from, to);
            }
            process.receive(round, &messages);
            self.measures.received(process);
            if process.decision().is_some() {
                self.decided_in[usize::from(to)].get_or_insert(round);
            }
            if process.has_halted() {
                self.halted_in[usize::from(to)].get_or_insert(round);
            }
        }
    }

    /// Whether no correct process takes part any longer.
    pub fn is_over(&self) -> bool {
        self.correct().all(|(_, process)| process.has_halted())
    }

    /// By number; those of the adversary are not what they seem.
    pub fn processes(&self) -> &[S] {
        &self.processes
    }

    /// What the correct ones have sent in the last round, by sender.
    pub fn sent(&self) -> &[Option<S::Message>] {
        &self.sent
    }

    /// The correct ones and their numbers.
    pub fn correct(&self) -> impl Iterator<Item = (usize, &S)> {
        let numbered = (0_u8..).zip(&self.processes).filter(|&(process, _)| !self.lying.contains(process));
        numbered.map(|(number, process)| (number.into(), process))
    }

    /// The last round that was gone through, 0 at first.
    pub const fn round(&self) -> u32 {
        self.round
    }

    /// In which round a process decided.
    pub fn decided_in(&self, process: usize) -> Option<u32> {
        self.decided_in[process]
    }

    /// At the end of which round a process halted.
    pub fn halted_in(&self, process: usize) -> Option<u32> {
        self.halted_in[process]
    }

    /// What the correct ones have taken so far.
    pub const fn measures(&self) -> &Measures {
        &self.measures
    }
}

/// What a process sends, if it takes part.
pub(crate) fn say<S: Synchronous>(process: &mut S, round: u32) -> Option<S::Message> {
    (!process.has_halted()).then(|| process.send(round))
}

/// So many rounds.
///
/// # Panics
/// If they are 2³² or more.
pub fn rounds(count: usize) -> u32 {
    u32::try_from(count).expect("rounds are few")
}

/// How many bytes a message takes.
pub fn length(message: &impl Wire) -> u64 {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.len() as u64
}
