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
    /// As far as it has come.
    pub(crate) log: Log,
    /// Where all of it ends.
    pub(crate) end: (SequenceNumber, Summary),
    /// Up to here it has its places from the leader of that view.
    pub(crate) ordered: SequenceNumber,
    pub(crate) committed: SequenceNumber,
}

impl Candidate {
    /// Whether it tells of all that comes after what is committed. Who knew less could take what was committed elsewhere for lost.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_begin() && self.log.last() >= self.end.0
    }

    pub(crate) fn has_begin(&self) -> bool {
        self.log.start() <= self.committed
    }
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
    let known = merged.entries_after(merged.start()).map(name);
    let mut known: BTreeSet<(ClientId, u64)> = known.collect();
    let start = merged.start();
    let before = merged.summary(start);
    for (_, Candidate { log, committed, .. }) in latest {
        // What the merged log no longer has is executed: a state tells of it.
        let from = if log.summary(start) == before { start.max(*committed) } else { *committed };
        for entry in log.entries_after(from) {
            if known.insert(name(entry)) {
                merged.append(entry.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of operations that are named by letters; `ordered` of them have their places from the leader.
    fn candidate(last_normal: u64, log: &str, ordered: u64) -> Candidate {
        let mut entries = Log::default();
        for letter in log.bytes() {
            let (client, operation) = (ClientId(letter.into()), [letter].into());
            let session = SequenceNumber(0);
            entries.append(Entry { client, session, number: 1, operation, is_query: false });
        }
        let ordered = SequenceNumber(ordered);
        let last_normal = View { epoch: 0, number: last_normal };
        let end = entries.end();
        Candidate { last_normal, log: entries, end, ordered, committed: SequenceNumber(0) }
    }

    fn letters(log: &Log) -> String {
        log.entries_after(log.start()).map(|entry| char::from(entry.operation[0])).collect()
    }

    fn merged(candidates: impl IntoIterator<Item = Candidate>) -> String {
        let named = (0..).map(NodeId).zip(candidates).collect();
        merge(&named).map(|(_, log)| letters(&log)).unwrap_or_default()
    }

    /// Speculative Paxos, section 4.2.4: "only logs with the highest v_l".
    #[test]
    fn logs_of_earlier_views_do_not_count() {
        let logs = [candidate(3, "abcdef", 6), candidate(4, "abx", 3), candidate(3, "abcdef", 6)];
        assert_eq!(merged(logs), "abx");
    }

    /// Section 4.2.4: what is known to have succeeded comes first.
    #[test]
    fn what_a_leader_has_ordered_stays() {
        let logs = [candidate(4, "abcd", 0), candidate(4, "bacd", 3), candidate(4, "abcd", 0)];
        assert_eq!(merged(logs), "bacd");
    }

    /// Section 4.2.4: the same summary in a majority of the logs.
    #[test]
    fn what_a_majority_has_after_the_same_operations_keeps_its_place() {
        let logs = [candidate(4, "abcd", 1), candidate(4, "abdc", 1), candidate(4, "abce", 1)];
        assert_eq!(merged(logs), "abcde");
        // Two of four are none.
        let split = ["ab", "ab", "ba", "ba"].map(|log| candidate(4, log, 0));
        assert_eq!(merged(split), "ab");
        // The same operation after others is not the same.
        let logs = [candidate(4, "axc", 1), candidate(4, "ayc", 1), candidate(4, "azc", 1)];
        assert_eq!(merged(logs), "axcyz");
    }

    /// Section 4.2.4: "every operation in any of the input logs appears in the output log".
    #[test]
    fn nothing_is_left_out_and_nothing_comes_twice() {
        let logs = [candidate(4, "ab", 0), candidate(4, "ca", 0), candidate(4, "bd", 0)];
        let mut all: Vec<char> = merged(logs).chars().collect();
        all.sort_unstable();
        assert_eq!(all, ['a', 'b', 'c', 'd']);
    }

    /// Viewstamped replication, section 4.2: the longest log of the last view.
    #[test]
    fn where_leaders_order_everything_the_longest_log_wins() {
        let logs = [candidate(4, "ab", 2), candidate(4, "abcd", 4), candidate(2, "abxyz", 5)];
        assert_eq!(merged(logs), "abcd");
    }

    #[test]
    fn what_a_state_tells_of_does_not_come_again() {
        let mut late = candidate(4, "abcd", 4);
        late.committed = SequenceNumber(3);
        late.log.drop_until(SequenceNumber(3));
        assert_eq!(merged([late, candidate(4, "abc", 3)]), "d");
    }
}
