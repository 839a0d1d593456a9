//! What the threads of a meeting's connections tell the one that decides.

use crate::frame::Frame;
use crate::news::Fault;
use crate::session::Link;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::Sender;

/// What happened to a connection.
pub(crate) enum Happened {
    Link(Link),
    /// A member could not be called, and why.
    Unreached(usize, String),
    /// Somebody has called who was not let in, and why.
    Refused(String, String),
    Heard(usize, Inbound),
    Frame(usize, u64, Frame),
    Ended(usize, u64, Fault),
}

/// A connection on which a member sends. Dropping it ends that.
pub(crate) struct Inbound {
    /// Tells it from others of the same member.
    pub(crate) serial: u64,
    /// Lets it read one frame more each time: who sends much waits its turn.
    pub(crate) go_on: Sender<()>,
    pub(crate) stream: TcpStream,
}

impl Drop for Inbound {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
