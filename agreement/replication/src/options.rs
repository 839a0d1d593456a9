//! How a replica works.

#[cfg(doc)]
use crate::{Event, StateMachine};
use std::time::Duration;

/// How a replica works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How often a leader gives a sign.
    pub heartbeat: Duration,
    /// How long a replica waits for one, or for a view to begin, before it wants a later view: several heartbeats. If they come in
    /// greater intervals it waits for two of those, and at most three times as long.
    pub patience: Duration,
    /// A message holds at most so many operations.
    pub batch: usize,
    /// So many messages of operations are on their way at most; further operations wait for one to be committed, and then go
    /// together.
    pub window: usize,
    /// A message holds no more bytes of operations than that, but one operation. What is longer comes in parts. At most three mebibytes: of
    /// more, others might refuse to read so many operations.
    pub bytes: usize,
    /// So many operations are executed from one checkpoint to the next…
    pub checkpoint: u64,
    /// …or so many bytes of them. As many at most, or one operation, are taken from clients and not committed: whoever asks for more has to
    /// ask again.
    pub checkpoint_bytes: usize,
    /// A leader that speculates looks after so many operations whether the others have done the same, or when it gives a sign.
    pub synchronize: u64,
    /// Whether nothing is promised before it is on the disk. Without, a replica that has crashed comes back as another incarnation.
    pub is_durable: bool,
    /// Whether states are too large for a message. Then a checkpoint holds only what [`StateMachine::snapshot`] says of the state, and
    /// whoever runs a replica that is [behind](Event::Behind) copies the state itself, part by part, while the replica goes on: so operations are such
    /// that carried out over a state that is newer in part they come to the same, if all that follow are, too.
    pub is_copied: bool,
    /// Whether the nodes of the group never change, under whatever incarnations: then whoever is none of them is heard as a client is.
    pub is_fixed: bool,
}

impl Default for Options {
    /// For a network of microseconds, and disks.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(20),
            patience: Duration::from_millis(100),
            batch: 64,
            window: 2,
            bytes: 1 << 20,
            checkpoint: 10_000,
            checkpoint_bytes: 64 << 20,
            synchronize: 100,
            is_durable: true,
            is_copied: false,
            is_fixed: false,
        }
    }
}
