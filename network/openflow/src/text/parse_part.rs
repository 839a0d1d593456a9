//! Parts of a text, and what is wrong with them.

use super::parse_value::number;
use crate::ErrorCode;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A part is not what it should be.
    #[error("`{part}`: {expected} is expected")]
    Malformed {
        /// Which part.
        part: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A part is well written, and no switch would take it.
    #[error("`{part}`: {code}")]
    Refused {
        /// Which part.
        part: String,
        /// Why.
        code: ErrorCode,
    },
}

pub(super) type Result<T> = std::result::Result<T, TextError>;

pub(super) fn malformed(part: &str, expected: &'static str) -> TextError {
    TextError::Malformed { part: part.trim().into(), expected }
}

/// A number that fits, or what is expected instead.
pub(super) fn narrow<T: TryFrom<u128>>(part: &str, expected: &'static str) -> Result<T> {
    number(part).and_then(|number| T::try_from(number).ok()).ok_or_else(|| malformed(part, expected))
}

/// The parts between commas that are in no parentheses.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let between = text.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    between.map(str::trim).filter(|part| !part.is_empty())
}
