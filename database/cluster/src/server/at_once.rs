//! What a client may be told at once.
//!
//! None of it tells of a change, which could yet be lost: that, a shard tells as soon as it may (`shard::answers`). As this is all that a
//! turn [answers](super::Turn::answer), an answer before its time cannot be written.

use crate::map::Layout;
use crate::message::{Answer, Failed, Found};
use fulmar_kv::Timestamp;

#[derive(Clone)]
pub(super) enum AtOnce {
    /// Another has to be asked, or the same in a while.
    Elsewhere,
    /// The database is open; and a time that the clock has reached.
    Open(Layout, Timestamp),
    /// A time that the clock has reached: a snapshot of it was opened, if that was asked for.
    Now(Timestamp),
    /// The snapshot that was to be opened was closed meanwhile.
    Closed,
    /// What everybody sees from now on…
    Settled(Found),
    /// …is not what was expected.
    Unexpected,
    /// The first of the numbers that are the client's in its transaction.
    Picked(i64),
    /// About how many bytes there are.
    Size(u64),
    /// It was not done.
    Failed(Failed),
}

impl From<AtOnce> for Answer {
    fn from(answer: AtOnce) -> Self {
        match answer {
            AtOnce::Elsewhere => Self::Elsewhere,
            AtOnce::Open(layout, reached) => Self::Open(layout, reached),
            AtOnce::Now(at) => Self::At(at),
            AtOnce::Closed => Self::Nothing,
            AtOnce::Settled(found) => Self::Found(found),
            AtOnce::Unexpected => Self::Unexpected,
            AtOnce::Picked(first) => Self::Picked(first),
            AtOnce::Size(bytes) => Self::Size(bytes),
            AtOnce::Failed(failed) => Self::Failed(failed),
        }
    }
}
