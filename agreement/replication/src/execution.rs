//! The state machine, and what each client was last answered.

use crate::{ClientId, Entry, SequenceNumber, StateMachine, Summary};
use std::collections::BTreeMap;
use std::fmt;

/// The last request of a client that was carried out, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) number: u64,
    pub(crate) result: Vec<u8>,
}

/// All that the operations up to one of them have led to.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last of them.
    pub at: SequenceNumber,
    /// The summary of the log up to there.
    pub summary: Summary,
    /// What each client was last answered.
    pub(crate) answered: BTreeMap<ClientId, Answered>,
    /// The state machine's snapshot.
    pub(crate) state: Vec<u8>,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint at {} {:?} of {} bytes", self.at.0, self.summary, self.state.len())
    }
}

/// A state machine that has executed a prefix of the log, each operation once.
pub(crate) struct Execution<S> {
    state_machine: S,
    executed: SequenceNumber,
    answered: BTreeMap<ClientId, Answered>,
}

impl<S: StateMachine> Execution<S> {
    pub(crate) const fn new(state_machine: S) -> Self {
        Self { state_machine, executed: SequenceNumber(0), answered: BTreeMap::new() }
    }

    pub(crate) const fn state_machine(&self) -> &S {
        &self.state_machine
    }

    pub(crate) const fn executed(&self) -> SequenceNumber {
        self.executed
    }

    /// What the client was last answered.
    pub(crate) fn answered(&self, client: ClientId) -> Option<&Answered> {
        self.answered.get(&client)
    }

    /// Executes the next operation of the log, which is committed; a request that is in the log for the second time has the
    /// result of the first.
    pub(crate) fn execute(&mut self, entry: &Entry) -> &[u8] {
        self.executed = self.executed.next();
        let is_new = self.answered.get(&entry.client).is_none_or(|last| last.number < entry.number);
        if is_new {
            let result = self.state_machine.execute(self.executed, &entry.operation);
            self.answered.insert(entry.client, Answered { number: entry.number, result });
        }
        self.state_machine.commit(self.executed);
        self.answered.get(&entry.client).map_or(&[], |last| &last.result)
    }

    /// What has come of all that is executed, where the log has this summary.
    pub(crate) fn checkpoint(&self, summary: Summary) -> Checkpoint {
        let state = self.state_machine.snapshot();
        Checkpoint { at: self.executed, summary, answered: self.answered.clone(), state }
    }

    pub(crate) fn restore(&mut self, checkpoint: &Checkpoint) {
        self.executed = checkpoint.at;
        self.answered.clone_from(&checkpoint.answered);
        self.state_machine.restore(checkpoint.at, &checkpoint.state);
    }
}
