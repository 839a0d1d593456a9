//! The state machine, and what each client was last answered.

#[cfg(test)]
use crate::group::Defect;
use crate::{ClientId, Entry, Group, SequenceNumber, StateMachine, Summary};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// So many clients are remembered. The one that was answered the longest ago is forgotten for the next, at the same place of every log.
pub(crate) const MOST_CLIENTS: usize = if cfg!(test) { 5 } else { 10_000 };

/// The last request of a client that was carried out, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) session: SequenceNumber,
    pub(crate) number: u64,
    pub(crate) at: SequenceNumber,
    pub(crate) result: Vec<u8>,
}

/// All that the operations up to one of them have led to.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last of them.
    pub at: SequenceNumber,
    /// The summary of the log up to there.
    pub summary: Summary,
    /// The group that goes on from there.
    pub group: Group,
    /// What each client was last answered.
    pub(crate) answered: BTreeMap<ClientId, Answered>,
    /// The state machine's snapshot.
    pub(crate) state: Vec<u8>,
}

impl Checkpoint {
    /// What nothing has led to: a group is founded.
    pub(crate) const fn first(group: Group) -> Self {
        let (at, summary) = (SequenceNumber(0), Summary(0));
        Self { at, summary, group, answered: BTreeMap::new(), state: Vec::new() }
    }

    /// Whether its state is one that a state machine of this kind takes over.
    #[must_use]
    pub fn is_of<S: StateMachine + Default>(&self) -> bool {
        S::default().restore(self.at, &self.state)
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint at {} {:?} of {} bytes", self.at.0, self.summary, self.state.len())
    }
}

/// What the execution of an operation has changed in what clients were last answered.
struct Replaced {
    client: ClientId,
    before: Option<Answered>,
    /// For whom there was no more room.
    forgotten: Option<(ClientId, Answered)>,
}

/// A state machine that has executed a prefix of the log, each operation once; the end of it perhaps in vain.
pub(crate) struct Execution<S> {
    state_machine: S,
    executed: SequenceNumber,
    answered: BTreeMap<ClientId, Answered>,
    /// Of each operation that was executed and is not committed, what it has replaced in `answered`; nothing, if it was in the
    /// log before, or is the group's, or its client is forgotten.
    undo: VecDeque<Option<Replaced>>,
    #[cfg(test)]
    pub(crate) defect: Option<Defect>,
}

impl<S: StateMachine> Execution<S> {
    pub(crate) fn new(state_machine: S) -> Self {
        let executed = SequenceNumber(0);
        Self {
            state_machine,
            executed,
            answered: BTreeMap::new(),
            undo: VecDeque::new(),
            #[cfg(test)]
            defect: None,
        }
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

    /// What came of this request, if the client was answered nothing since.
    pub(crate) fn result_of(&self, entry: &Entry) -> Option<&Answered> {
        self.answered(entry.client).filter(|last| last.number == entry.number)
    }

    /// Executes the next operation of the log, if it is sure that it was not executed before.
    pub(crate) fn execute(&mut self, entry: &Entry) {
        self.executed = self.executed.next();
        let is_operation = entry.client != ClientId::GROUP;
        let replaced = (is_operation && self.is_new(entry)).then(|| {
            let answered = self.answer(entry);
            let client = entry.client;
            let before = self.answered.insert(client, answered);
            let forgotten = if before.is_none() { self.forget_oldest() } else { None };
            Replaced { client, before, forgotten }
        });
        self.undo.push_back(replaced);
    }

    /// Whether a request is later than all that its client was answered.
    fn is_new(&self, entry: &Entry) -> bool {
        let last = self.answered.get(&entry.client);
        #[cfg(test)]
        match self.defect {
            Some(Defect::ExecutesTwice) => return true,
            Some(Defect::ForgetsSessions) => return last.is_none_or(|last| last.number < entry.number),
            _ => {}
        }
        match last {
            Some(last) => last.session == entry.session && last.number < entry.number,
            None => !entry.was_let_in(),
        }
    }

    fn answer(&mut self, entry: &Entry) -> Answered {
        let (at, number) = (self.executed, entry.number);
        if entry.asks_to_be_let_in() {
            return Answered { session: at, number, at, result: at.0.to_be_bytes().into() };
        }
        let is_query = entry.is_query;
        #[cfg(test)]
        let is_query = is_query && self.defect != Some(Defect::ExecutesQueries);
        let result = if is_query {
            self.state_machine.query(&entry.operation)
        } else {
            self.state_machine.execute(at, &entry.operation)
        };
        Answered { session: entry.session, number, at, result }
    }

    /// Forgets the client that was answered the longest ago, if there is one too many.
    fn forget_oldest(&mut self) -> Option<(ClientId, Answered)> {
        if self.answered.len() <= MOST_CLIENTS {
            return None;
        }
        let oldest = self.answered.iter().min_by_key(|(_, answered)| answered.at);
        let client = oldest.map(|(client, _)| *client)?;
        self.answered.remove_entry(&client)
    }

    /// Nothing up to here, which is executed, will be rolled back.
    pub(crate) fn commit(&mut self, upto: SequenceNumber) {
        let kept = self.executed.0.saturating_sub(upto.0);
        let known = self.undo.len().saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
        if known > 0 {
            self.undo.drain(..known);
            self.state_machine.commit(upto);
        }
    }

    /// Undoes what comes after `last`.
    pub(crate) fn rollback(&mut self, last: SequenceNumber) {
        if self.executed <= last {
            return;
        }
        self.state_machine.rollback(last.next());
        while self.executed > last
            && let Some(replaced) = self.undo.pop_back()
        {
            self.executed = SequenceNumber(self.executed.0 - 1);
            if let Some(Replaced { client, before, forgotten }) = replaced {
                self.answered.remove(&client);
                self.answered.extend(before.map(|before| (client, before)).into_iter().chain(forgotten));
            }
        }
    }

    pub(crate) fn may_checkpoint(&self) -> bool {
        self.state_machine.may_checkpoint()
    }

    /// What has come of all that is executed, where the log has this summary.
    pub(crate) fn checkpoint(&self, summary: Summary, group: Group) -> Checkpoint {
        let state = self.state_machine.snapshot();
        Checkpoint { at: self.executed, summary, group, answered: self.answered.clone(), state }
    }

    /// Whether the checkpoint has a state; if not, nothing has changed.
    #[must_use]
    pub(crate) fn restore(&mut self, checkpoint: &Checkpoint) -> bool {
        if !self.state_machine.restore(checkpoint.at, &checkpoint.state) {
            return false;
        }
        self.executed = checkpoint.at;
        self.answered.clone_from(&checkpoint.answered);
        // A replica that remembered all clients has made it. Which are remembered is to follow from the log alone, not from
        // where in it the checkpoint is.
        let mut places: Vec<_> = self.answered.values().map(|answered| answered.at).collect();
        places.sort_unstable();
        if let Some(first) = places.iter().rev().nth(MOST_CLIENTS - 1) {
            self.answered.retain(|_, answered| answered.at >= *first);
        }
        self.undo.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use fulmar_node::{NodeId, Random};

    /// Remembers what it was told to execute.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Diary(Vec<(SequenceNumber, Vec<u8>)>);

    impl StateMachine for Diary {
        fn execute(&mut self, number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
            self.0.push((number, operation.into()));
            self.0.len().to_be_bytes().into()
        }
        fn rollback(&mut self, from: SequenceNumber) {
            self.0.retain(|(number, _)| *number < from);
        }
        fn commit(&mut self, _upto: SequenceNumber) {}
        fn query(&self, _operation: &[u8]) -> Vec<u8> {
            Vec::new()
        }
        fn snapshot(&self) -> Vec<u8> {
            Vec::new()
        }
        fn restore(&mut self, _at: SequenceNumber, _snapshot: &[u8]) -> bool {
            true
        }
    }

    /// After any operations, commits and rollbacks all is as if only what is left had ever been executed.
    #[test]
    fn what_is_rolled_back_has_never_been() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut execution, mut log) = (Execution::new(Diary::default()), Vec::new());
            let mut committed = 0;
            for step in 0..60 {
                let length = log.len() as u64;
                match random.below(4) {
                    0 => {
                        let last = committed + random.below(length - committed + 1);
                        execution.rollback(SequenceNumber(last));
                        log.truncate(usize::try_from(last).expect("few"));
                    }
                    1 => {
                        committed += random.below(length - committed + 1);
                        execution.commit(SequenceNumber(committed));
                    }
                    _ => {
                        // Now and then the same request, or an older one, is in the log again.
                        let (client, number) =
                            (ClientId(random.below(8)), 1 + step / 4 - random.below(2).min(step / 4));
                        let operation = step.to_be_bytes().into();
                        let session = SequenceNumber(0);
                        let entry = Entry { client, session, number, operation, is_query: false };
                        execution.execute(&entry);
                        log.push(entry);
                    }
                }
                let mut fresh = Execution::new(Diary::default());
                log.iter().for_each(|entry| fresh.execute(entry));
                assert_eq!(execution.state_machine, fresh.state_machine);
                assert_eq!((execution.executed, &execution.answered), (fresh.executed, &fresh.answered));
            }
        }
    }

    /// Replicas of before remembered all clients. Where in the log their checkpoint is makes no difference to what is remembered.
    #[test]
    fn who_is_remembered_follows_from_the_log_alone() {
        let most = MOST_CLIENTS as u64;
        let entry = |client| Entry {
            client: ClientId(client),
            session: SequenceNumber(0),
            number: 1,
            operation: Vec::new().into(),
            is_query: false,
        };
        let at = |client: u64| Answered {
            session: SequenceNumber(0),
            number: 1,
            at: SequenceNumber(client),
            result: Vec::new(),
        };
        let restored = |upto: u64| {
            let group = Group::new([0, 1, 2].map(NodeId), Protocol::Viewstamped).expect("three");
            let answered = (1..=upto).map(|client| (ClientId(client), at(client))).collect();
            let checkpoint = Checkpoint { at: SequenceNumber(upto), answered, ..Checkpoint::first(group) };
            let mut execution = Execution::new(Diary::default());
            assert!(execution.restore(&checkpoint));
            execution
        };
        let (mut early, late) = (restored(2 * most), restored(2 * most + 3));
        (1..=3).for_each(|client| early.execute(&entry(2 * most + client)));
        assert!(early.answered.keys().eq(late.answered.keys()));
        assert_eq!(late.answered.len(), MOST_CLIENTS);
    }
}
