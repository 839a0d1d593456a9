//! How much is enough.

use std::time::Duration;

/// Bounds of a server and its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message, encoded.
    pub message: usize,
    /// Bytes that a connection may have unsent. A client that leaves more unread is not heard before it has read half
    /// of them, and what is sent to it beyond twice the bound is dropped; what is sent to a server beyond the bound is
    /// dropped.
    pub unsent: usize,
    /// Bytes that all clients together may have sent of messages that are not whole yet, as far as each is longer than a
    /// mebibyte. Beyond, one of them goes on, and the others are not read from; another one does, if it has said nothing for a
    /// second. As many bytes may all clients together leave unread; beyond, none is heard that has left more than a mebibyte.
    pub unread: usize,
    /// Connections at one time, of clients and servers. Beyond, the client that is idle longest makes room for who comes, if it
    /// has been for a second; so does who says the name of a server whose address is not known.
    pub connections: usize,
    /// How long a client may be silent before its connection is closed. Nothing: as long as there is room.
    pub idle: Option<Duration>,
    /// How long the other end's host may be silent when something is to be acknowledged. At least some seconds.
    pub dead: Duration,
    /// For how long a driver looks for work before it sleeps, as long as its waits end within that time: trades idle time
    /// of a core for the time that waking up takes.
    pub spin: Duration,
    /// For how long a turn of a server may last before other servers take it to be gone: up to then they
    /// [hear](fulmar_node::Process::busy) that it is there. Zero: they hear nothing during a turn.
    pub busy: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 16 << 20,
            unsent: 4 << 20,
            unread: 256 << 20,
            connections: 10_000,
            idle: None,
            dead: Duration::from_secs(10),
            spin: Duration::ZERO,
            busy: Duration::ZERO,
        }
    }
}
