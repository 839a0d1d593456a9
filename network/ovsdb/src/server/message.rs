//! What clients are told.

use super::Watching;
use crate::Changes;
use serde_json::Value;
use std::sync::Arc;

/// Something that a client is told.
#[derive(Clone, Debug)]
pub struct Message(Content);

#[derive(Clone, Debug)]
enum Content {
    /// A reply, or what becomes of a lock.
    Whole(Value),
    /// What was committed, as one of its monitors tells it. It is made when the client has room for it: what was committed is there once,
    /// and each of many monitors may tell all of it.
    Update { watching: Arc<Watching>, changes: Arc<Changes>, bytes: usize },
}

impl Message {
    pub(super) const fn update(watching: Arc<Watching>, changes: Arc<Changes>, bytes: usize) -> Self {
        Self(Content::Update { watching, changes, bytes })
    }

    /// What is said. Nothing, if it is of changes that a monitor does not cover.
    #[must_use]
    pub fn into_json(self) -> Option<Value> {
        match self.0 {
            Content::Whole(value) => Some(value),
            Content::Update { watching, changes, .. } => {
                let Watching { name, monitor, .. } = &*watching;
                monitor.update(&changes).map(|rows| monitor.flavor.notification(name, rows))
            }
        }
    }

    /// Some bytes more than it keeps in memory that others than who is told would not keep.
    pub(crate) const fn bytes(&self) -> usize {
        match &self.0 {
            Content::Whole(_) => size_of::<Self>(),
            Content::Update { bytes, .. } => size_of::<Self>() + *bytes,
        }
    }
}

impl From<Value> for Message {
    fn from(value: Value) -> Self {
        Self(Content::Whole(value))
    }
}
