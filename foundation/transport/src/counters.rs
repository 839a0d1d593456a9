//! What a driver counts.

/// Counts since a driver was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that were handed to connections. Greetings are no messages.
    pub messages_sent: u64,
    /// Messages that were handed to the process.
    pub messages_received: u64,
    /// Bytes that left, greetings and prefixes included.
    pub bytes_sent: u64,
    /// Bytes that came, greetings and prefixes included.
    pub bytes_received: u64,
    /// Messages that were dropped: their receiver could not be reached, or did not take what was sent before, or they
    /// were too long.
    pub dropped: u64,
    /// Datagrams that came and held no message of this cluster and version.
    pub malformed: u64,
    /// Connections that were begun or accepted.
    pub connections: u64,
    /// The most bytes of clients' large messages that were not whole: see [`Limits::unread`](crate::Limits::unread).
    pub unread_peak: u64,
    /// The most bytes that clients had not read, of those that had left a mebibyte or more.
    pub backlog_peak: u64,
    /// The most bytes that one connection had unsent.
    pub unsent_peak: u64,
}
