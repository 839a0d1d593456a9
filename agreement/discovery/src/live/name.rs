//! What nodes call themselves.

use std::fmt;
use std::str::FromStr;

/// A name for people and programs: at most [`Name::LONGEST`] bytes, without control characters, perhaps empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// Text that is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name for a node: expected at most {longest} bytes without control characters", longest = Name::LONGEST)]
pub struct BadName(pub String);

impl Name {
    /// Bytes that a name may have, so that records of many nodes fit one datagram.
    pub const LONGEST: usize = 64;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if text.len() > Self::LONGEST || text.chars().any(char::is_control) {
            return Err(BadName(text.into()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
