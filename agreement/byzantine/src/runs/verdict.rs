//! What must hold of an execution of any protocol of agreement.

use super::{Cost, Execution};
use crate::{Synchronous, Value};
use thiserror::Error;

/// What is broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Two correct processes decided on two values.
    #[error("process {first} decided on {first_value} and process {second} on {second_value}")]
    Disagreement {
        /// One of them.
        first: usize,
        /// On what, for people.
        first_value: String,
        /// The other.
        second: usize,
        /// On what, for people.
        second_value: String,
    },
    /// All correct processes began with one value and one decided on another.
    #[error("all correct processes began with {input}, and process {process} decided on {value}")]
    Validity {
        /// Who did.
        process: usize,
        /// With what all began.
        input: String,
        /// On what it decided.
        value: String,
    },
    /// A value other than the default was decided on, with which at most t correct processes began.
    #[error(
        "process {process} decided on {value}, with which {supporters} correct processes began: at least {needed} must"
    )]
    MultiValuedValidity {
        /// Who did.
        process: usize,
        /// On what.
        value: String,
        /// How many correct ones began with it.
        supporters: usize,
        /// t + 1.
        needed: usize,
    },
    /// A correct process still took part after the last round that it may take.
    #[error("process {process} has not halted by the end of round {bound}")]
    Late {
        /// Who did.
        process: usize,
        /// The last round that it may take.
        bound: u32,
    },
    /// What a protocol's own checks say.
    #[error("{0}")]
    Invariant(String),
}

/// What an execution is judged by.
#[derive(Clone, Debug)]
pub struct Verdict<'a, V> {
    /// By process; those of processes that lie are not looked at.
    pub inputs: &'a [V],
    /// How many may lie.
    pub t: usize,
    /// On what any execution with different inputs may decide, the default among it; `None` if the protocol does not promise
    /// multi-valued validity (Abraham and Dolev 2015, section 1).
    pub defaults: Option<Vec<V>>,
    /// The last round that may be taken.
    pub bound: u32,
}

impl<V: Value> Verdict<'_, V> {
    /// Agreement and validity so far, and at the bound that all have halted.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn of<S: Synchronous<Value = V> + Cost>(&self, execution: &Execution<S>) -> Result<(), Violation> {
        let inputs: Vec<_> = execution.correct().map(|(process, _)| self.inputs[process]).collect();
        let unanimous = inputs.first().filter(|&first| inputs.iter().all(|input| input == first));
        let decisions = execution.correct().filter_map(|(p, process)| Some((p, process.decision()?)));
        let mut first = None;
        for (process, value) in decisions {
            let &mut (other, its) = first.get_or_insert((process, value));
            if value != its {
                return Err(Violation::Disagreement {
                    first: other,
                    first_value: format!("{its:?}"),
                    second: process,
                    second_value: format!("{value:?}"),
                });
            }
            if let Some(input) = unanimous.filter(|&&input| input != value) {
                return Err(Violation::Validity {
                    process,
                    input: format!("{input:?}"),
                    value: format!("{value:?}"),
                });
            }
            let supporters = inputs.iter().filter(|&&input| input == value).count();
            if self.defaults.as_ref().is_some_and(|defaults| !defaults.contains(&value))
                && supporters <= self.t
            {
                return Err(Violation::MultiValuedValidity {
                    process,
                    value: format!("{value:?}"),
                    supporters,
                    needed: self.t + 1,
                });
            }
        }
        let late =
            execution.correct().find(|(_, process)| !process.has_halted() || process.decision().is_none());
        match late {
            Some((process, _)) if execution.round() >= self.bound => {
                Err(Violation::Late { process, bound: self.bound })
            }
            _ => Ok(()),
        }
    }
}
