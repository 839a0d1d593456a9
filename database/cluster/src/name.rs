//! Names of databases, as users give them.

use fulmar_coding::Reader;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of the longest name.
const LONGEST: usize = 100;

/// Names a database, for as long as the cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseNumber(pub u32);

/// The name of a database on servers: letters, digits, `_`, `-` and `.`, not the latter first, and no more than 100. There is no other
/// way to make one than by checking it, so it is safe as part of a path, in a log and on a terminal wherever it is met.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseName(Arc<str>);

/// It cannot be the name of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a database has letters, digits, '_', '-' and '.', does not begin with '.', and is no longer than {LONGEST}"
)]
pub struct BadName;

impl DatabaseName {
    /// What stands for the cluster's own records: no database has this name.
    pub(crate) fn of_records() -> Self {
        Self(".cluster".into())
    }

    /// What stands for a database that is its server's only one.
    pub(crate) fn of_shared() -> Self {
        Self("shared".into())
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        std::str::from_utf8(input.bytes()?).ok()?.try_into().ok()
    }
}

impl TryFrom<&str> for DatabaseName {
    type Error = BadName;

    fn try_from(name: &str) -> Result<Self, BadName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_name =
            (1..=LONGEST).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(allowed);
        if is_name { Ok(Self(name.into())) } else { Err(BadName) }
    }
}

impl Deref for DatabaseName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadName, DatabaseName, LONGEST};

    #[test]
    fn what_leads_elsewhere_or_does_more_than_name_is_no_name() {
        let long = "x".repeat(LONGEST + 1);
        let bad = [
            "",
            ".",
            "..",
            ".cluster",
            "../x",
            "a/b",
            "/etc",
            "a\0",
            "a\n",
            "\u{1b}[2J",
            "möwe",
            "a b",
            &long,
        ];
        for name in bad {
            assert_eq!(DatabaseName::try_from(name), Err(BadName), "{name:?}");
        }
        for name in ["birds", "a..b", "-", "_.1", &long[1..]] {
            assert_eq!(DatabaseName::try_from(name).as_deref(), Ok(name));
        }
    }
}
