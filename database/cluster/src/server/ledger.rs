//! Who makes durable what a server carries out.

use super::{Synced, Turn};
use crate::client::bytes;
use crate::replicated::{Entries, LARGEST, too_large};
use fulmar_kv::{Commit, Database, Error};
use fulmar_node::Lsn;

pub(super) enum Ledger {
    /// This server's disk.
    Disk,
    /// The replicas that this server leads.
    Replicas(Entries),
}

impl Ledger {
    /// What was written to `database` is to be durable; answers from when on it is.
    pub(super) fn record(&self, database: &Database, turn: &mut Turn<'_>) -> Lsn {
        match self {
            Self::Disk => turn.out.record(Synced::of(database)),
            Self::Replicas(_) => self.recorded(turn),
        }
    }

    pub(super) fn recorded(&self, turn: &Turn<'_>) -> Lsn {
        match self {
            Self::Disk => turn.out.logged(),
            Self::Replicas(entries) => Lsn(entries.progress().0),
        }
    }

    /// Whether more may be written.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Disk => true,
            Self::Replicas(entries) => entries.has_room(),
        }
    }

    /// Whether so much may be written at once. What is found to be too much only when it is written costs others their snapshots.
    pub(super) fn require_takeable(&self, commit: &Commit) -> Result<(), Error> {
        let Self::Replicas(entries) = self else { return Ok(()) };
        let bytes = bytes(commit);
        if bytes > LARGEST { Err(too_large(entries.path(), bytes)) } else { Ok(()) }
    }

    pub(super) fn durable(&self, turn: &Turn<'_>) -> Lsn {
        match self {
            Self::Disk => turn.known.durable,
            Self::Replicas(entries) => Lsn(entries.progress().1),
        }
    }
}
