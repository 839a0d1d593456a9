//! Questions that have met the lock of a transaction, until it is known what becomes of that.

use super::super::backlog::Room;
use super::{Asked, Task, is_reshape};
use fulmar_kv::{Timestamp, TransactionId};
use fulmar_node::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What waits. Clients ask as much as they like, so there are bounds on it, and nobody looks at all of it when something is heard of one transaction.
pub(super) struct Deferred {
    /// By the transaction, by what it waits for, and in the order in which they came.
    waiting: BTreeMap<(TransactionId, WaitsFor, u64), Asked>,
    questions: BTreeSet<(NodeId, u64)>,
    came: u64,
    room: Room,
    of_all: Arc<AtomicU64>,
}

/// What waits so in all shards of a server has no more bytes, if it is not a single one's.
const MOST_OF_ALL: u64 = 256 << 20;

/// What has to be known of a transaction before a question can go on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WaitsFor {
    /// That it has not been decided: the question does not wait for what it depends on.
    News,
    /// That it takes place after this, if it does.
    After(Timestamp),
    /// What becomes of it. A reshape waits for no lock itself, and is over soon: nobody has changed what the other depends on. Who is to be
    /// alone depends on nothing yet.
    Outcome,
}

impl WaitsFor {
    fn of(by: TransactionId, task: &Task) -> Self {
        match task {
            Task::Read { sight, .. } => Self::After(sight.at),
            Task::Exclude(_) => Self::Outcome,
            _ if is_reshape(by) => Self::Outcome,
            _ => Self::News,
        }
    }
}

impl Deferred {
    /// Nothing yet. What waits in all shards of this server has `of_all` bytes.
    pub(super) const fn new(of_all: Arc<AtomicU64>) -> Self {
        Self { waiting: BTreeMap::new(), questions: BTreeSet::new(), came: 0, room: Room::EMPTY, of_all }
    }

    /// Has it wait for a transaction. If there is no room for it, it comes back.
    pub(super) fn push(&mut self, by: TransactionId, asked: Asked) -> Option<Asked> {
        let others = self.of_all.load(Relaxed);
        if others > 0 && others + asked.weight > MOST_OF_ALL || !self.room.admit(asked.weight) {
            return Some(asked);
        }
        self.of_all.fetch_add(asked.weight, Relaxed);
        self.came += 1;
        self.questions.insert((asked.client, asked.number));
        self.waiting.insert((by, WaitsFor::of(by, &asked.task), self.came), asked);
        None
    }

    /// What waits for a transaction, in the order in which it came.
    pub(super) fn take(&mut self, by: TransactionId) -> Vec<Asked> {
        self.take_up_to(by, WaitsFor::Outcome)
    }

    /// What does not depend on what becomes of a transaction, now that it is known to take place after `seen`, if it does.
    pub(super) fn take_undisturbed(&mut self, by: TransactionId, seen: Timestamp) -> Vec<Asked> {
        self.take_up_to(by, WaitsFor::After(seen))
    }

    fn take_up_to(&mut self, by: TransactionId, last: WaitsFor) -> Vec<Asked> {
        let all = (by, WaitsFor::News, 0)..=(by, last, u64::MAX);
        let mut taken: Vec<_> = self.waiting.extract_if(all, |_, _| true).collect();
        taken.sort_unstable_by_key(|((_, _, came), _)| *came);
        taken.into_iter().map(|(_, asked)| self.gone(asked)).collect()
    }

    /// Takes all of which that is true, whatever they wait for.
    pub(super) fn extract(&mut self, is_wanted: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let taken: Vec<_> = self.waiting.extract_if(.., |_, asked| is_wanted(asked)).collect();
        taken.into_iter().map(|(_, asked)| self.gone(asked)).collect()
    }

    fn gone(&mut self, asked: Asked) -> Asked {
        self.questions.remove(&(asked.client, asked.number));
        self.room.leave(asked.weight);
        self.of_all.fetch_sub(asked.weight, Relaxed);
        asked
    }

    /// Whether a client's question waits.
    pub(super) fn has(&self, client: NodeId, number: u64) -> bool {
        self.questions.contains(&(client, number))
    }

    /// The transactions that something waits for; with the last moment that a reader sees, if there is one.
    pub(super) fn transactions(&self) -> BTreeMap<TransactionId, Option<Timestamp>> {
        let mut transactions = BTreeMap::new();
        for ((by, ..), asked) in &self.waiting {
            let last: &mut Option<Timestamp> = transactions.entry(*by).or_default();
            *last = (*last).max(asked.task.reader());
        }
        transactions
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.room.bytes(), Relaxed);
    }
}
