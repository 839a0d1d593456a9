//! What is counted.

/// How often what has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps that processes took.
    pub steps: u64,
    /// Messages sent, those of a multicast counted for each receiver.
    pub sent: u64,
    /// Messages that a process received.
    pub received: u64,
    /// Messages that a link lost.
    pub lost: u64,
    /// Messages that were on their way when the receiver was told that the connection had ended.
    pub severed: u64,
    /// Messages that a cut stopped.
    pub cut: u64,
    /// Messages that arrived at a node that was down or never there, or were waiting there when it crashed.
    pub dead: u64,
    /// Messages that arrived twice.
    pub duplicated: u64,
    /// Messages that a link delayed beyond its latency.
    pub late: u64,
    /// Syncs that a disk completed.
    pub syncs: u64,
    /// Records emitted.
    pub records: u64,
    /// Records that a crash took, for they were not durable yet.
    pub records_lost: u64,
    /// Crashes, those because of a broken disk among them.
    pub crashes: u64,
    /// Restarts after a crash.
    pub restarts: u64,
    /// Pauses.
    pub pauses: u64,
    /// Cuts made, in one direction or both.
    pub cuts: u64,
    /// Changes of clocks.
    pub clock_changes: u64,
    /// Disks that broke.
    pub disks_broken: u64,
    /// Events that processes emitted.
    pub events: u64,
}
