//! A store under snapshot isolation that a few lines can make wrong, and random histories of it.

use super::{Object, Operation, Outcome, Timestamp, Transaction, Value};
use fulmar_node::Random;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    None,
    /// Snapshots may be old: right, but not by sessions or real time.
    OldSnapshots,
    /// The read timestamp is taken with each read.
    LateReads,
    /// Whoever commits last wins.
    NoFirstCommitterWins,
    /// Reads see what is not yet committed.
    DirtyReads,
    /// What aborts stays.
    NoRollback,
    /// Of several writes the first is not carried out.
    HalfCommits,
}

struct Running {
    index: usize,
    steps: u64,
    written: BTreeMap<Object, Vec<Value>>,
}

struct Store {
    bug: Bug,
    random: Random,
    clock: Timestamp,
    versions: BTreeMap<Object, Vec<(Timestamp, Vec<Value>)>>,
    history: Vec<Transaction>,
    running: Vec<Option<Running>>,
    next_value: Value,
}

/// What some clients see who use `keys` lists and as many registers.
pub(super) fn history(seed: u64, bug: Bug, transactions: usize, keys: u64) -> Vec<Transaction> {
    let mut store = Store {
        bug,
        random: Random::new(seed),
        clock: 0,
        versions: BTreeMap::new(),
        history: Vec::new(),
        running: (0..5).map(|_| None).collect(),
        next_value: 0,
    };
    let mut now = 0;
    while store.history.len() < transactions || store.running.iter().any(Option::is_some) {
        now += 1;
        let process = store.random.index(store.running.len());
        match store.running[process].take() {
            None if store.history.len() < transactions => store.begin(process, now),
            None => {}
            Some(running) if running.steps == 0 => store.end(running, now),
            Some(mut running) => {
                running.steps -= 1;
                let key = store.random.below(keys);
                store.step(&mut running, key);
                store.running[process] = Some(running);
            }
        }
    }
    store.history
}

impl Store {
    fn begin(&mut self, process: usize, now: u64) {
        let lag = if self.bug == Bug::OldSnapshots { self.random.below(4) } else { 0 };
        let transaction = Transaction::new(process as u64, Outcome::Unknown, Vec::new());
        let snapshot = Some(self.clock.saturating_sub(lag));
        let steps = 1 + self.random.below(5);
        let index = self.history.len();
        self.history.push(Transaction { snapshot, interval: Some((now, now)), ..transaction });
        self.running[process] = Some(Running { index, steps, written: BTreeMap::new() });
    }

    fn step(&mut self, running: &mut Running, key: u64) {
        let is_list = self.random.one_in(2);
        let object = if is_list { Object::List(key) } else { Object::Register(key) };
        let mut content = self.read(running, object);
        let is_read = self.random.one_in(2);
        if !is_read {
            self.next_value += 1;
            content.truncate(if is_list { usize::MAX } else { 0 });
            content.push(self.next_value);
            running.written.insert(object, content.clone());
        }
        self.history[running.index].operations.push(match (is_list, is_read) {
            (true, true) => Operation::ReadList(key, content),
            (true, false) => Operation::Append(key, self.next_value),
            (false, true) => Operation::Read(key, content.first().copied()),
            (false, false) => Operation::Write(key, self.next_value),
        });
    }

    fn read(&self, running: &Running, object: Object) -> Vec<Value> {
        if let Some(own) = running.written.get(&object) {
            return own.clone();
        }
        let others = self.running.iter().flatten().find_map(|other| other.written.get(&object));
        if let Some(dirty) = others.filter(|_| self.bug == Bug::DirtyReads) {
            return dirty.clone();
        }
        let is_late = self.bug == Bug::LateReads;
        let snapshot = self.history[running.index].snapshot.filter(|_| !is_late).unwrap_or(self.clock);
        let versions = self.versions.get(&object).map_or(&[][..], Vec::as_slice);
        let visible = versions.iter().rev().find(|(commit, _)| *commit <= snapshot);
        visible.map(|(_, content)| content.clone()).unwrap_or_default()
    }

    fn end(&mut self, running: Running, now: u64) {
        let transaction = &mut self.history[running.index];
        let is_newer =
            |versions: &Vec<(u64, _)>| versions.last().map(|(commit, _)| *commit) > transaction.snapshot;
        let mut written = running.written.keys().filter_map(|object| self.versions.get(object));
        let conflicts = written.any(is_newer) && self.bug != Bug::NoFirstCommitterWins;
        let commits = !conflicts && !self.random.one_in(10);
        transaction.outcome = match commits {
            _ if self.random.one_in(10) => Outcome::Unknown,
            true => Outcome::Committed,
            false => Outcome::Aborted,
        };
        transaction.interval = transaction.interval.map(|(begin, _)| (begin, now));
        if commits || self.bug == Bug::NoRollback {
            self.clock += 1;
            transaction.commit = Some(self.clock);
            let is_half = self.bug == Bug::HalfCommits && running.written.len() > 1;
            for (object, content) in running.written.into_iter().skip(usize::from(is_half)) {
                self.versions.entry(object).or_default().push((self.clock, content));
            }
        }
    }
}
