//! How much is enough.

use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// More at their greeting are of no use.
const WAITING_ROOM: usize = 64;
/// Of the connections so many are kept for clients on the server's machine: who looks after the server asks it how it is from there.
const RESERVED: usize = 8;

/// Bounds of a server and its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message, encoded.
    pub message: usize,
    /// Bytes that a connection may have unsent. A client that leaves more unread is not heard before it has read half
    /// of them, and what is sent to it beyond twice the bound is dropped; what is sent to a server beyond the bound is
    /// dropped. What is said of clients here and below holds of who says the name of a server, too, as long as that may be invented: the server's
    /// address is not known, or another connection under its name is heard.
    pub unsent: usize,
    /// Bytes that all clients together may have sent of messages that are not whole yet, as far as each is longer than a
    /// mebibyte. Beyond, one of them goes on, and the others are not read from; another one does, if it has said nothing for a
    /// second. As many bytes may all clients together leave unread; beyond, none is heard that has left more than a mebibyte.
    pub unread: usize,
    /// Connections at one time, of clients and servers; at most half as many as the process may have descriptors: the others are for its
    /// files, for who is at his greeting, and for calls to servers. Beyond, the client that is idle longest makes room for who comes, if it
    /// has been for a second; so does who may have invented the server's name that it says. A server whose address is known is let in. Eight of
    /// them, or an eighth if that is less, are for clients on the server's own machine.
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

/// How many descriptors the process may have.
pub(crate) fn descriptors() -> usize {
    // No limit at all is more than enough.
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors).unwrap_or(usize::MAX)
}

/// So many connections beyond the limit may be at their greeting, to be told that the server is full.
pub(crate) fn waiting_room(descriptors: usize) -> usize {
    WAITING_ROOM.min(descriptors / 8)
}

impl Limits {
    /// How many connections there may be for one more to come in, from this machine or from another.
    pub(crate) fn connections_for(&self, is_local: bool) -> usize {
        let reserved = if is_local { 0 } else { RESERVED.min(self.connections / 8) };
        self.connections - reserved
    }

    /// For a server in a process that may have so many descriptors.
    pub(crate) fn within(self, descriptors: usize) -> Self {
        Self { connections: self.connections.min(descriptors / 2), ..self }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// With more clients than descriptors nothing could be opened any more, and all stood still.
    #[test]
    fn a_full_server_has_room_for_who_is_on_its_machine() {
        for (connections, others) in [(0, 0), (4, 4), (40, 35), (512, 504)] {
            let limits = Limits { connections, ..Limits::default() };
            assert_eq!(limits.connections_for(true), connections);
            assert_eq!(limits.connections_for(false), others);
        }
    }

    #[test]
    fn descriptors_are_left_for_files_and_servers() {
        for descriptors in [64, 160, 1_024, 20_000, usize::MAX] {
            let limits = Limits::default().within(descriptors);
            let most = limits.connections + waiting_room(descriptors);
            assert!(most <= descriptors / 8 * 5, "{most} of {descriptors}");
        }
        assert_eq!(Limits::default().within(20_000), Limits::default());
    }
}
