//! The snapshots that a server's clients hold.

use fulmar_kv::Timestamp;
use fulmar_node::NodeId;
use std::collections::BTreeMap;

/// A client has so many snapshots open at most.
pub(super) const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Snapshots {
    /// How many of each a client holds.
    held: BTreeMap<(NodeId, Timestamp), usize>,
    /// How many different ones that are.
    counts: BTreeMap<NodeId, usize>,
    /// How many all clients hold.
    count: u64,
    /// How many of each all clients hold.
    open: BTreeMap<Timestamp, usize>,
    /// The last question by which each client opened a snapshot.
    last: BTreeMap<NodeId, Opened>,
}

struct Opened {
    number: u64,
    at: Timestamp,
    /// Whether the client was told.
    is_told: bool,
}

impl Snapshots {
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.open.keys().next().copied()
    }

    /// How many are open.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Opens a snapshot for a client's question; nothing if the client has asked for another since, or has closed it. Asked again, it is
    /// the one that was opened before, which the client may have heard of by now.
    pub(super) fn open(&mut self, client: NodeId, number: u64, at: Timestamp) -> Option<Timestamp> {
        match self.last.get(&client) {
            Some(last) if last.number > number => return None,
            Some(last) if last.number == number => {
                return Some(last.at).filter(|at| self.held.contains_key(&(client, *at)));
            }
            _ => {}
        }
        self.last.insert(client, Opened { number, at, is_told: false });
        let held = self.held.entry((client, at)).or_default();
        *held += 1;
        if *held == 1 {
            *self.counts.entry(client).or_default() += 1;
        }
        self.count += 1;
        *self.open.entry(at).or_default() += 1;
        Some(at)
    }

    /// Whether a client holds as many as it may.
    pub(super) fn are_enough(&self, client: NodeId) -> bool {
        self.counts.get(&client).is_some_and(|count| *count >= MOST)
    }

    /// A client is told of the snapshot that was opened for its question.
    pub(super) fn tell(&mut self, client: NodeId, number: u64) {
        if let Some(last) = self.last.get_mut(&client).filter(|last| last.number == number) {
            last.is_told = true;
        }
    }

    /// Closes the snapshot that was opened for a client's question, if the client was not told of it: if it asks again, another is opened. Answers
    /// when it was, if it was the client's last at this time.
    pub(super) fn close_untold(&mut self, client: NodeId, number: u64) -> Option<Timestamp> {
        let last = self.last.get(&client).filter(|last| last.number == number && !last.is_told)?;
        let at = last.at;
        self.last.remove(&client);
        self.close(client, at).then_some(at)
    }

    /// Closes one of a client's; says whether it was the last at this time.
    pub(super) fn close(&mut self, client: NodeId, at: Timestamp) -> bool {
        let Some(held) = self.held.get_mut(&(client, at)) else { return false };
        *held -= 1;
        let is_last = *held == 0;
        if is_last {
            self.held.remove(&(client, at));
            if let Some(count) = self.counts.get_mut(&client) {
                *count -= 1;
            }
        }
        self.end(at, 1);
        is_last
    }

    /// So many at this time are held no longer.
    fn end(&mut self, at: Timestamp, count: usize) {
        self.count -= count as u64;
        if let Some(open) = self.open.get_mut(&at) {
            *open -= count;
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
            self.held.remove(&(client, at));
            self.end(at, count);
        }
        self.counts.remove(&client);
    }
}
