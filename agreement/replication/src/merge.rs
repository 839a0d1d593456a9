//! The log with which a view begins.
//!
//! It must hold, where they are, all operations that may have been committed before: what f + 1 replicas hold in a place that a
//! leader has given it, and what a superquorum holds after the same operations. The rule is that of Speculative Paxos (section
//! 4.2.4); that of viewstamped replication, the longest log of the last view, is what it comes to if leaders give all places.

use crate::{ClientId, Entry, Log, SequenceNumber, Summary, View};
use fulmar_node::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// A replica's log, to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Whose view's log it is.
    pub(crate) last_normal: View,
    pub(crate) log: Log,
    /// Up to here it has its places from the leader of that view.
    pub(crate) ordered: SequenceNumber,
    pub(crate) committed: SequenceNumber,
}

/// The merged log, and the replica from whose log it goes on.
pub(crate) fn merge(candidates: &BTreeMap<NodeId, Candidate>) -> Option<(NodeId, Log)> {
    // Only those of the last view: they respect what came of the views before.
    let last_normal = candidates.values().map(|candidate| candidate.last_normal).max()?;
    let latest = candidates.iter().filter(|(_, candidate)| candidate.last_normal == last_normal);
    let latest: Vec<(NodeId, &Candidate)> = latest.map(|(owner, candidate)| (*owner, candidate)).collect();
    // What the leader has ordered is the same in all of them, as far as it goes.
    let (owner, most_ordered) = latest.iter().max_by_key(|(_, candidate)| candidate.ordered).copied()?;
    let mut merged = most_ordered.log.clone();
    merged.truncate(most_ordered.ordered);
    while let Some(entry) = agreed_next(&merged, &latest) {
        merged.append(entry);
    }
    append_others(&mut merged, &latest);
    Some((owner, merged))
}

/// What comes next in a majority of the logs, after the same operations.
fn agreed_next(merged: &Log, latest: &[(NodeId, &Candidate)]) -> Option<Entry> {
    let next = merged.last().next();
    let before = merged.summary(merged.last())?;
    let mut votes: BTreeMap<Summary, (usize, &Entry)> = BTreeMap::new();
    for (_, Candidate { log, .. }) in latest {
        if let (Some(entry), Some(summary)) = (log.get(next), log.summary(next))
            && summary == before.then(entry)
        {
            votes.entry(summary).or_insert((0, entry)).0 += 1;
        }
    }
    let most = votes.into_values().max_by_key(|(count, _)| *count);
    most.filter(|(count, _)| 2 * count > latest.len()).map(|(_, entry)| entry.clone())
}

/// Whatever else is in any of the logs is not lost, though nobody may have been told of it; in an order that is as good as any.
fn append_others(merged: &mut Log, latest: &[(NodeId, &Candidate)]) {
    let name = |entry: &Entry| (entry.client, entry.number);
    let known = merged.from(merged.start().next(), usize::MAX).map(|(_, entry)| name(entry));
    let mut known: BTreeSet<(ClientId, u64)> = known.collect();
    let start = merged.start();
    let before = merged.summary(start);
    for (_, Candidate { log, committed, .. }) in latest {
        // What the merged log no longer has is executed: a state tells of it.
        let from = if log.summary(start) == before { start.max(*committed) } else { *committed };
        for (_, entry) in log.from(from.next(), usize::MAX) {
            if known.insert(name(entry)) {
                merged.append(entry.clone());
            }
        }
    }
}
