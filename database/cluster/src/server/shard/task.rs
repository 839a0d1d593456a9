//! What a client asks of a shard.

use crate::message::{Begun, Direction};
use fulmar_kv::{
    Basis, Commit, Durability, Exclusion, Expected, Key, ObjectId, Prepare, Timestamp, TransactionId,
};
use fulmar_node::NodeId;
use std::sync::Arc;

/// Something that a client has asked for.
pub(in super::super) struct Asked {
    pub(in super::super) client: NodeId,
    pub(in super::super) number: u64,
    /// Whether it may have been asked before.
    pub(in super::super) again: bool,
    pub(in super::super) task: Task,
    /// About how many bytes it takes.
    pub(in super::super) weight: u64,
}

pub(in super::super) enum Task {
    Read {
        object: ObjectId,
        from: Key,
        direction: Direction,
        bytes: u64,
        begun: Option<Begun>,
        sight: Sighted,
    },
    Commit(TransactionId, Arc<Commit>, Durability),
    CommitUnread(TransactionId, Arc<Commit>, Basis, Durability),
    Prepare(Prepare),
    Decide(TransactionId, Timestamp, Durability),
    Exclude(Exclusion),
}

/// A snapshot that is open.
pub(in super::super) struct Sighted {
    pub(in super::super) at: Timestamp,
    /// Whether this question has opened it.
    pub(in super::super) is_new: bool,
    pub(in super::super) expected: Option<Expected>,
    /// Whether it waits for an object that may be here in a moment.
    pub(in super::super) waits: bool,
}

impl Task {
    pub(super) fn reader(&self) -> Option<Timestamp> {
        match self {
            Self::Read { sight, .. } => Some(sight.at),
            _ => None,
        }
    }

    /// The transaction that has taken place if this was done before; what is only prepared has not.
    pub(super) fn commits(&self) -> Option<(TransactionId, Durability)> {
        match self {
            Self::Commit(transaction, _, durability)
            | Self::CommitUnread(transaction, _, _, durability)
            | Self::Decide(transaction, _, durability) => Some((*transaction, *durability)),
            Self::Read { .. } | Self::Prepare(_) | Self::Exclude(_) => None,
        }
    }

    /// Whether it is of a client that has another transaction by now than this one, and so has given that up, whoever has heard of it.
    pub(super) fn comes_after(&self, before: TransactionId) -> bool {
        let transaction = match self {
            Self::Commit(transaction, ..) | Self::CommitUnread(transaction, ..) => *transaction,
            Self::Prepare(prepare) => prepare.transaction,
            Self::Read { .. } | Self::Decide(..) | Self::Exclude(_) => return false,
        };
        transaction.client == before.client && transaction.number > before.number
    }

    /// The transaction that it asks for takes place after this, if it does.
    pub(super) fn after(&self) -> Option<Timestamp> {
        match self {
            Self::Commit(_, commit, _) => Some(commit.snapshot),
            Self::CommitUnread(_, _, basis, _) => Some(basis.after),
            Self::Decide(_, at, _) => Some(Timestamp(at.0.saturating_sub(1))),
            Self::Read { .. } | Self::Prepare(_) | Self::Exclude(_) => None,
        }
    }
}
