//! The versions that are spoken, and the forms in which their messages are written.

use crate::message::{HEADER, Message, Rejection, TooLong, VERSION};
use crate::v10;
use std::fmt;

/// A version of OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.0.
    V10,
    /// OpenFlow 1.3.
    V13,
}

impl Version {
    /// All that are spoken.
    pub const ALL: [Self; 2] = [Self::V10, Self::V13];

    /// What headers call it.
    pub const fn number(self) -> u8 {
        match self {
            Self::V10 => v10::VERSION,
            Self::V13 => VERSION,
        }
    }

    /// The one that headers call so.
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }

    /// The one that Open vSwitch's tools call so, as `OpenFlow10`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| name == format!("OpenFlow1{}", version.number() - 1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFlow 1.{}", self.number() - 1)
    }
}

/// How the messages of a connection are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As OpenFlow 1.0 has them, in the forms that were chosen.
    V10(Habits),
    /// As OpenFlow 1.3 has them.
    V13,
}

/// What a controller of OpenFlow 1.0 chooses by Nicira's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Changes of flows say in their command which table they are for.
    pub names_tables: bool,
    /// Flows are told in Nicira's form, which has words for all that they match.
    pub tells_all: bool,
}

/// A message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// There is too much in it.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The version has no such message.
    #[error("{0} has no such message")]
    Unknown(Version),
}

impl From<Version> for Dialect {
    fn from(version: Version) -> Self {
        match version {
            Version::V10 => Self::V10(Habits::default()),
            Version::V13 => Self::V13,
        }
    }
}

impl Dialect {
    /// Its version.
    pub const fn version(self) -> Version {
        match self {
            Self::V10(_) => Version::V10,
            Self::V13 => Version::V13,
        }
    }

    /// The dialect in which a request is answered: one in Nicira's form in the same.
    #[must_use]
    pub fn answering(self, request: &[u8]) -> Self {
        match self {
            Self::V10(habits) if request.get(1) == Some(&v10::STATISTICS_REQUEST) => {
                let tells_all = request.get(HEADER..HEADER + 2) == Some(&[0xff; 2]);
                Self::V10(Habits { tells_all, ..habits })
            }
            other => other,
        }
    }

    /// Appends a message to bytes.
    ///
    /// # Errors
    /// [`Unwritable`]; then nothing is appended.
    pub fn encode(self, message: &Message, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        match self {
            Self::V10(habits) => v10::encode(message, habits, out),
            Self::V13 => Ok(message.encode(out)?),
        }
    }

    /// The message that these bytes are.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(self, bytes: &[u8]) -> Result<Message, Rejection> {
        match self {
            Self::V10(habits) => v10::decode(bytes, habits).map_err(|code| Rejection::of(bytes, code)),
            Self::V13 => Message::decode(bytes),
        }
    }
}
