//! What happens to connections, for who looks after a server.

use crate::address::Address;
use crate::frame::FrameTooLong;
use crate::hello::Refusal;
use crate::link::LinkError;
use fulmar_node::NodeId;
use std::fmt;
use std::io;

/// Something happened to a connection.
#[derive(Debug)]
pub enum Notice {
    /// A client or another server has connected, or this server to another.
    Connected {
        /// Who.
        peer: NodeId,
        /// From where, or where.
        address: String,
    },
    /// This server has begun to connect to another. [`Notice::Connected`] or [`Notice::Unreachable`] follows.
    Connecting {
        /// To whom.
        peer: NodeId,
        /// Where.
        address: Address,
    },
    /// A connection has ended. A client's name is gone with it; a server may have others.
    Closed {
        /// To whom it was.
        peer: NodeId,
        /// Why.
        why: LinkError,
    },
    /// Who wanted to connect was told why not.
    Refused {
        /// Who.
        address: String,
        /// If it says that it is a server: which, and which it looks for.
        call: Option<(NodeId, NodeId)>,
        /// Why not.
        why: Refusal,
    },
    /// A connection ended before its greeting.
    Unknown {
        /// Who.
        address: String,
        /// Why.
        why: LinkError,
    },
    /// Another server could not be reached. It is tried again when there is something to send.
    Unreachable {
        /// Which.
        peer: NodeId,
        /// Where.
        address: Address,
        /// Why.
        why: LinkError,
    },
    /// The system gives no more connections for now. Tried again soon.
    CannotAccept(io::Error),
    /// The process sent a message that is too long; it was dropped.
    TooLong {
        /// To whom.
        to: NodeId,
        /// How long.
        why: FrameTooLong,
    },
}

impl Notice {
    /// Which kind of thing happened.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Connected { .. } => "connected",
            Self::Connecting { .. } => "connecting",
            Self::Closed { .. } => "closed",
            Self::Refused { .. } => "refused",
            Self::Unknown { .. } => "unknown",
            Self::Unreachable { .. } => "unreachable",
            Self::CannotAccept(_) => "cannot accept",
            Self::TooLong { .. } => "too long",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { peer, address } => write!(f, "{peer} connected: {address}"),
            Self::Connecting { peer, address } => write!(f, "connecting to {peer} at {address}"),
            Self::Closed { peer, why } => write!(f, "connection to {peer} ended: {why}"),
            Self::Refused { address, why, .. } => write!(f, "refused a connection from {address}: {why}"),
            Self::Unknown { address, why } => write!(f, "a connection from {address} ended: {why}"),
            Self::Unreachable { peer, address, why } => write!(f, "cannot reach {peer} at {address}: {why}"),
            Self::CannotAccept(why) => write!(f, "cannot accept connections: {why}"),
            Self::TooLong { to, why } => write!(f, "dropped a message to {to}: {why}"),
        }
    }
}
