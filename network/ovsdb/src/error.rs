//! What a client is told of a request that cannot be met.

use serde_json::{Value, json};
use std::fmt;

/// What kind of error it is: the `error` member of an `<error>` (RFC 7047, section 3.1), by which clients tell errors apart. Sections 4
/// and 5 name some of the strings; the others are those that clients know from `ovsdb-server`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `abort` was asked for (5.2.8).
    Aborted,
    /// `cancel` was asked for (4.1.4).
    Canceled,
    /// A value, a column or a table is not as its schema says.
    ConstraintViolation,
    /// A division by zero (5.2.4).
    DomainError,
    /// A row of this UUID is there already.
    DuplicateUuid,
    /// Two rows have been given the same name in one transaction (5.2.1).
    DuplicateUuidName,
    /// The disk fails (4.1.3).
    IoError,
    /// The database is not for clients to change.
    NotAllowed,
    /// The client does not hold the lock (5.2.10).
    NotOwner,
    /// The result of arithmetic has no place in its type (5.2.4).
    RangeError,
    /// A strong reference leads nowhere (3.2).
    ReferentialIntegrityViolation,
    /// The disk is full, or the client leaves too much to be remembered for it (4.1.3).
    ResourcesExhausted,
    /// The request is not of the form that it must have.
    SyntaxError,
    /// `wait` waited in vain (5.2.6).
    TimedOut,
    /// There is no such column.
    UnknownColumn,
    /// There is no such database.
    UnknownDatabase,
    /// There is no such function in a condition.
    UnknownFunction,
    /// There is no such mutator.
    UnknownMutator,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aborted => "aborted",
            Self::Canceled => "canceled",
            Self::ConstraintViolation => "constraint violation",
            Self::DomainError => "domain error",
            Self::DuplicateUuid => "duplicate uuid",
            Self::DuplicateUuidName => "duplicate uuid-name",
            Self::IoError => "I/O error",
            Self::NotAllowed => "not allowed",
            Self::NotOwner => "not owner",
            Self::RangeError => "range error",
            Self::ReferentialIntegrityViolation => "referential integrity violation",
            Self::ResourcesExhausted => "resources exhausted",
            Self::SyntaxError => "syntax error",
            Self::TimedOut => "timed out",
            Self::UnknownColumn => "unknown column",
            Self::UnknownDatabase => "unknown database",
            Self::UnknownFunction => "unknown function",
            Self::UnknownMutator => "unknown mutator",
        })
    }
}

/// An `<error>` (RFC 7047, section 3.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{tag}: {details}")]
pub struct Error {
    /// Its kind, for programs.
    pub tag: Tag,
    /// What, where and what was expected, for people.
    pub details: String,
}

impl Error {
    pub(crate) fn new(tag: Tag, details: impl Into<String>) -> Self {
        Self { tag, details: details.into() }
    }

    pub(crate) fn syntax(details: impl Into<String>) -> Self {
        Self::new(Tag::SyntaxError, details)
    }

    pub(crate) fn constraint(details: impl Into<String>) -> Self {
        Self::new(Tag::ConstraintViolation, details)
    }

    /// The same, and where it is.
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        Self { details: format!("{place}: {}", self.details), ..self }
    }

    /// As clients are told.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"error": self.tag.to_string(), "details": self.details})
    }
}
