//! What a packet is for a connection.

use crate::agenda::Timeout;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// As the first packet of its connection.
    Original,
    /// Against it.
    Reply,
}

impl Direction {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// What a packet means for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// It is part of it, and lets it be remembered for so long.
    Valid(Option<Timeout>),
    /// It cannot be part of it.
    Invalid,
    /// The connection is over, and this begins another.
    Anew,
}
