//! What a client waits for, as its user is told, and for how long.

use super::{Client, LIMIT, PATIENCE, SLOWEST};
use crate::status::CLOCK;
use fulmar_node::NodeId;
use std::time::Duration;

impl Client {
    /// Who was asked last.
    pub(crate) fn waits_for(&self) -> Option<NodeId> {
        self.waits_for
    }

    /// A server that has said why this database, or the clock, cannot be asked there, and what it has said.
    pub(crate) const fn told(&self) -> Option<&(NodeId, String)> {
        self.told.as_ref()
    }

    /// Somebody has said what takes no part there.
    pub(super) fn note_failures(&mut self, from: NodeId, failures: Vec<String>) {
        let names = |failure: &str| failure.split([' ', ':']).any(|word| word == &*self.database);
        let why = failures.into_iter().find(|failure| names(failure) || failure.contains(CLOCK));
        if let Some(why) = why {
            self.told = Some((from, why));
        }
    }

    /// How long an answer may take in all.
    pub(crate) fn limit(&self) -> Duration {
        self.limit.unwrap_or(LIMIT)
    }

    /// How long an answer may take.
    pub(super) fn patience(&self) -> Duration {
        PATIENCE.min(self.limit()) + self.on_its_way()
    }

    /// How long what was asked may be on its way, which no limit includes: a server that is sent a large commit is not silent.
    pub(super) fn on_its_way(&self) -> Duration {
        let bytes: u64 = self.asked.values().map(|asked| asked.size).sum();
        Duration::from_secs(bytes / SLOWEST)
    }
}
