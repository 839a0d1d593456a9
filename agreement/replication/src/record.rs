//! What a replica keeps on its disk.

use crate::{Checkpoint, SequenceNumber, View};
use std::sync::Arc;

/// What a replica must find again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// It has left all views before `view`; its log is that of `last_normal`.
    View {
        /// The view that it is in, or wants to be.
        view: View,
        /// The last view that it was in.
        last_normal: View,
    },
    /// It has left all views before `view` and is in that, with its log: its own up to `after`, and then these entries. One record,
    /// as the log of one view must never be taken for that of another.
    Install {
        /// The view.
        view: View,
        /// So far its log was the same.
        after: SequenceNumber,
        /// What comes then.
        entries: Vec<crate::Entry>,
    },
    /// The next entry of the log.
    Append(crate::Entry),
    /// The log has no entries after this one.
    Truncate(SequenceNumber),
    /// Up to this one the leader of its view has given the entries their places.
    Ordered(SequenceNumber),
    /// What comes up to this is known from it, and no record before is needed for that.
    Checkpoint(Arc<Checkpoint>),
    /// The same, and its log has nothing after it.
    Adopt(Arc<Checkpoint>),
    /// Whether the state that the checkpoint leads to is to be copied yet: again, from its beginning, if this comes once more.
    Copying(bool),
}
