//! The shard's part of transactions of several shards.
//!
//! *Known as:* a participant of two-phase commit, and its coordinator.

use super::Storage;
use crate::core::{Outcome, Pending, Prepare};
use crate::{Error, ObjectId, Refusal, Restructuring, ShardId, Timestamp, TransactionId};

impl Storage {
    /// Checks and locks this shard's part of a transaction. Answers the time from which on it can take place (the proposal).
    pub fn prepare(&self, prepare: &Prepare) -> Result<Timestamp, Refusal<()>> {
        self.change_one(|core, staged| core.prepare(self.shard, prepare, staged))
    }

    /// As the coordinator: the transaction takes place, at `at` or later. Answers when, and which objects were written; nothing, if it is not
    /// prepared here.
    pub fn decide(
        &self,
        transaction: TransactionId,
        at: Timestamp,
    ) -> Result<Option<(Timestamp, Vec<ObjectId>)>, Error> {
        self.prepared(|core, staged| core.decide(self.shard, transaction, at, staged))
    }

    /// As a participant: carries out what was decided elsewhere. Answers which objects were written.
    pub fn conclude(&self, transaction: TransactionId, outcome: Outcome) -> Result<Vec<ObjectId>, Error> {
        self.prepared(|core, staged| core.conclude(self.shard, transaction, outcome, staged))
    }

    /// As the coordinator of a change of a tree's shape: changes the links here, by which it takes place, at the time and with the other shards of
    /// `decided`. Answers which objects were written.
    pub fn reshape(
        &self,
        transaction: TransactionId,
        decided: (Timestamp, &[ShardId]),
        restructurings: &[Restructuring],
    ) -> Result<Vec<ObjectId>, Refusal<()>> {
        self.change_one(|core, staged| core.reshape(self.shard, transaction, decided, restructurings, staged))
    }

    /// As the coordinator: another shard has carried out the decision.
    pub fn confirm(&self, transaction: TransactionId, by: ShardId) -> Result<(), Error> {
        self.prepared(|core, staged| core.confirm(self.shard, transaction, by, staged))
    }

    /// What the shard knows of transactions of several shards.
    pub fn pending<T>(&self, look: impl FnOnce(&mut Pending) -> T) -> T {
        look(&mut self.core.lock().pending)
    }
}
