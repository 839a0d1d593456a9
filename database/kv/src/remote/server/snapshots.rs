//! The snapshots that a server's clients hold.

use crate::Timestamp;
use fulmar_node::NodeId;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Snapshots {
    /// How many of each a client holds.
    held: BTreeMap<(NodeId, Timestamp), usize>,
    /// How many of each all clients hold.
    open: BTreeMap<Timestamp, usize>,
    /// The last question by which each client opened a snapshot.
    last: BTreeMap<NodeId, (u64, Timestamp)>,
}

impl Snapshots {
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.open.keys().next().copied()
    }

    /// Opens a snapshot for a client's question, unless the client has asked for another since. Asked again, the one that
    /// was opened before is given up.
    pub(super) fn open(&mut self, client: NodeId, number: u64, at: Timestamp) -> bool {
        if let Some((last, before)) = self.last.get(&client).copied() {
            if last > number {
                return false;
            }
            if last == number {
                self.close(client, before);
            }
        }
        self.last.insert(client, (number, at));
        *self.held.entry((client, at)).or_default() += 1;
        *self.open.entry(at).or_default() += 1;
        true
    }

    pub(super) fn close(&mut self, client: NodeId, at: Timestamp) {
        let Some(held) = self.held.get_mut(&(client, at)) else { return };
        *held -= 1;
        if *held == 0 {
            self.held.remove(&(client, at));
        }
        if let Some(open) = self.open.get_mut(&at) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&at);
            }
        }
    }

    /// Closes all snapshots of a client.
    pub(super) fn forget(&mut self, client: NodeId) {
        self.last.remove(&client);
        let all = (client, Timestamp(0))..=(client, Timestamp(u64::MAX));
        let held: Vec<_> = self.held.range(all).map(|(&(_, at), &count)| (at, count)).collect();
        for (at, count) in held {
            for _ in 0..count {
                self.close(client, at);
            }
        }
    }
}
