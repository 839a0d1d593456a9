//! Sequential objects that most histories are about.

use super::Model;
use std::collections::BTreeMap;

/// A register, empty at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(pub Option<u64>);

/// What one can ask of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOperation {
    /// What is in it?
    Read,
    /// Replaces what is in it, by nothing to delete it.
    Write(Option<u64>),
    /// Replaces what is in it if that is `expected`.
    CompareAndSwap {
        /// What it must be.
        expected: Option<u64>,
        /// What it then becomes.
        new: Option<u64>,
    },
}

/// What a register answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOutput {
    /// What was read.
    Value(Option<u64>),
    /// The write took place.
    Written,
    /// Whether it was what was expected, and has been replaced.
    Swapped(bool),
}

impl Model for Register {
    type Operation = RegisterOperation;
    type Output = RegisterOutput;
    type Part = ();

    fn apply(&mut self, operation: &RegisterOperation) -> RegisterOutput {
        match *operation {
            RegisterOperation::Read => RegisterOutput::Value(self.0),
            RegisterOperation::Write(value) => {
                self.0 = value;
                RegisterOutput::Written
            }
            RegisterOperation::CompareAndSwap { expected, new } => {
                let fits = self.0 == expected;
                if fits {
                    self.0 = new;
                }
                RegisterOutput::Swapped(fits)
            }
        }
    }

    fn part(_: &RegisterOperation) {}
}

/// A register for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyValue(pub BTreeMap<u64, Register>);

/// What one can ask of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueOperation {
    /// Of which register.
    pub key: u64,
    /// And what.
    pub operation: RegisterOperation,
}

impl Model for KeyValue {
    type Operation = KeyValueOperation;
    type Output = RegisterOutput;
    type Part = u64;

    fn apply(&mut self, operation: &KeyValueOperation) -> RegisterOutput {
        self.0.entry(operation.key).or_default().apply(&operation.operation)
    }

    fn part(operation: &KeyValueOperation) -> u64 {
        operation.key
    }
}
