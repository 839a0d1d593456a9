//! What is replicated in the simulation.

use crate::{Invoke, SequenceNumber, StateMachine};
use fulmar_history::linearizability::{
    KeyValue, KeyValueOperation, Model, RegisterOperation, RegisterOutput,
};

/// Added to the key of a query, which is not to be executed.
const QUERY: u64 = 1 << 32;

/// Registers, replicated.
#[derive(Default)]
pub(crate) struct Registers {
    state: KeyValue,
    executed: SequenceNumber,
    /// Before each operation that may be rolled back: its place, and what the state was.
    before: Vec<(SequenceNumber, KeyValue)>,
}

fn encode_value(value: Option<u64>, out: &mut Vec<u8>) {
    out.extend(value.unwrap_or(u64::MAX).to_be_bytes());
}

pub(crate) fn invocation(operation: KeyValueOperation, is_query: bool) -> Invoke {
    let key = operation.key + if is_query { QUERY } else { 0 };
    let operation = encode(KeyValueOperation { key, ..operation }).into();
    if is_query { Invoke::Query(operation) } else { Invoke::Execute(operation) }
}

fn encode(operation: KeyValueOperation) -> Vec<u8> {
    let mut out = operation.key.to_be_bytes().to_vec();
    match operation.operation {
        RegisterOperation::Read => {}
        RegisterOperation::Write(value) => encode_value(value, &mut out),
        RegisterOperation::CompareAndSwap { expected, new } => {
            encode_value(expected, &mut out);
            encode_value(new, &mut out);
        }
    }
    out
}

fn is_query(bytes: &[u8]) -> bool {
    bytes[3] != 0
}

fn decode(bytes: &[u8]) -> KeyValueOperation {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
    let value = |word: u64| (word != u64::MAX).then_some(word);
    let operation = match words[1..] {
        [new] => RegisterOperation::Write(value(new)),
        [expected, new] => RegisterOperation::CompareAndSwap { expected: value(expected), new: value(new) },
        _ => RegisterOperation::Read,
    };
    KeyValueOperation { key: words[0] & !QUERY, operation }
}

fn encode_output(output: RegisterOutput) -> Vec<u8> {
    match output {
        RegisterOutput::Value(value) => {
            let mut out = vec![0];
            encode_value(value, &mut out);
            out
        }
        RegisterOutput::Written => vec![1],
        RegisterOutput::Swapped(swapped) => vec![2, u8::from(swapped)],
    }
}

pub(crate) fn decode_output(bytes: &[u8]) -> RegisterOutput {
    match bytes {
        [1] => RegisterOutput::Written,
        [2, swapped] => RegisterOutput::Swapped(*swapped == 1),
        value => {
            let word = u64::from_be_bytes(value[1..].try_into().expect("eight bytes"));
            RegisterOutput::Value((word != u64::MAX).then_some(word))
        }
    }
}

impl StateMachine for Registers {
    fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        assert!(number > self.executed);
        assert!(!is_query(operation), "a query is executed");
        self.executed = number;
        self.before.push((number, self.state.clone()));
        encode_output(self.state.apply(&decode(operation)))
    }

    fn rollback(&mut self, from: SequenceNumber) {
        self.executed = SequenceNumber(from.0 - 1);
        while let Some((_, before)) = self.before.pop_if(|(number, _)| *number >= from) {
            self.state = before;
        }
    }

    fn commit(&mut self, upto: SequenceNumber) {
        self.before.retain(|(number, _)| *number > upto);
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        assert!(is_query(operation));
        encode_output(self.state.clone().apply(&decode(operation)))
    }

    fn snapshot(&self) -> Vec<u8> {
        let registers = self.state.0.iter();
        registers
            .flat_map(|(key, register)| {
                let mut out = key.to_be_bytes().to_vec();
                encode_value(register.0, &mut out);
                out
            })
            .collect()
    }

    fn restore(&mut self, at: SequenceNumber, snapshot: &[u8]) -> bool {
        self.executed = at;
        self.state = KeyValue::default();
        self.before.clear();
        for pair in snapshot.as_chunks::<16>().0 {
            if let RegisterOperation::Write(value) = decode(pair).operation {
                let key = decode(pair).key;
                self.state.apply(&KeyValueOperation { key, operation: RegisterOperation::Write(value) });
            }
        }
        true
    }
}
