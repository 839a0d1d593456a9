//! A commit, of one shard or of several.
//!
//! *Known as:* the coordinator of two-phase commit, as far as a client is one: the decision is the primary shard's.

use super::Client;
use crate::message::{Answer, Message, Question};
use crate::name::DatabaseNumber;
use fulmar_kv::{Commit, Durability, Prepare, ShardId, Timestamp, TransactionId};
use fulmar_node::{NodeId, Outbox, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction of several shards on its way (two-phase commit).
pub(super) struct Committing {
    pub(super) transaction: TransactionId,
    pub(super) primary: ShardId,
    pub(super) durability: Durability,
    /// Before all shards are prepared.
    pub(super) unprepared: usize,
    /// Who may have prepared a shard's part.
    pub(super) asked: BTreeSet<(NodeId, DatabaseNumber, ShardId)>,
    /// The latest of the times from which on the shards can carry it out.
    pub(super) at: Timestamp,
}

impl Client {
    pub(super) fn commit(
        &mut self,
        parts: BTreeMap<ShardId, Commit>,
        durability: Durability,
        now: Time,
        out: &mut Outbox<Self>,
    ) {
        self.number += 1;
        let transaction = TransactionId { client: self.name, number: self.number };
        let mut shards = parts.keys().copied();
        let Some(primary) = shards.next() else { return };
        let others: Vec<_> = shards.collect();
        let unprepared = parts.len();
        let at = Timestamp(0);
        let asked = BTreeSet::new();
        self.committing = Some(Committing { transaction, primary, durability, unprepared, asked, at });
        for (shard, commit) in parts {
            let prepare = Prepare { transaction, primary, others: others.clone(), commit };
            let number = self.begin(shard, Question::Prepare(prepare));
            self.send(number, now, out);
        }
    }

    /// A question is answered.
    pub(super) fn conclude(&mut self, answer: Answer, now: Time, out: &mut Outbox<Self>) {
        let Some(committing) = &mut self.committing else { return self.tell(answer, out) };
        let Answer::At(at) = answer else {
            self.give_up(out);
            return self.tell(answer, out);
        };
        if committing.unprepared == 0 {
            return self.tell(answer, out);
        }
        committing.unprepared -= 1;
        committing.at = committing.at.max(at);
        if committing.unprepared == 0 {
            let decide = Question::Decide(committing.transaction, committing.at, committing.durability);
            let primary = committing.primary;
            let number = self.begin(primary, decide);
            self.send(number, now, out);
        }
    }

    /// Tells the shards that may have prepared a transaction that it will not be committed.
    pub(super) fn give_up(&mut self, out: &mut Outbox<Self>) {
        let Some(committing) = &self.committing else { return };
        // The decision may have been made.
        if committing.unprepared == 0 {
            return;
        }
        // Others may serve the shards by now.
        let serving = |(_, database, shard): &(NodeId, DatabaseNumber, ShardId)| {
            Some((self.layout.as_ref()?.server(*shard)?, *database, *shard))
        };
        let serving: BTreeSet<_> = committing.asked.iter().filter_map(serving).collect();
        for (server, database, shard) in committing.asked.union(&serving) {
            out.send(*server, Message::GivenUp(*database, *shard, committing.transaction));
        }
    }
}
