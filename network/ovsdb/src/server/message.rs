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
    /// A reply, or what becomes of a lock: as it is sent, which is much smaller than what it was made of.
    Whole(String),
    /// What was committed, as one of its monitors tells it. It is made when the client has room for it: what was committed is there once,
    /// and each of many monitors may tell all of it.
    Update { watching: Arc<Watching>, changes: Arc<Changes>, bytes: usize },
}

impl Message {
    pub(super) fn whole(value: &Value) -> Self {
        Self(Content::Whole(value.to_string()))
    }

    pub(super) const fn update(watching: Arc<Watching>, changes: Arc<Changes>, bytes: usize) -> Self {
        Self(Content::Update { watching, changes, bytes })
    }

    /// What is said, as JSON. Nothing, if it is of changes that a monitor does not cover.
    #[must_use]
    pub fn into_text(self) -> Option<String> {
        match self.0 {
            Content::Whole(text) => Some(text),
            Content::Update { watching, changes, .. } => {
                let Watching { name, monitor, .. } = &*watching;
                monitor.update(&changes).map(|rows| monitor.flavor.notification(name, rows).to_string())
            }
        }
    }

    /// About how much memory it takes, in bytes, and that of what it shares with others.
    pub(crate) const fn bytes(&self) -> (usize, usize) {
        match &self.0 {
            Content::Whole(text) => (size_of::<Self>() + text.len(), 0),
            Content::Update { bytes, .. } => (size_of::<Self>(), *bytes),
        }
    }

    /// Whether both are of the same changes.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Content::Update { changes: one, .. }, Content::Update { changes: other, .. }) => {
                Arc::ptr_eq(one, other)
            }
            _ => false,
        }
    }
}
