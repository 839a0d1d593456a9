//! SQL values as functions take them: whatever comes is converted as SQLite's `CAST` does.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rusqlite::types::ValueRef;

use crate::shell::statement::real_text;

/// A value as text, or a blob's bytes; `None` for NULL.
pub(super) fn text(value: ValueRef<'_>) -> Option<Cow<'_, [u8]>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(integer) => Some(integer.to_string().into_bytes().into()),
        ValueRef::Real(real) => Some(real_text(real).into_bytes().into()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.into()),
    }
}

/// A value as the name of a file, which need not be UTF-8; `None` for NULL.
pub(super) fn path(value: ValueRef<'_>) -> Option<PathBuf> {
    text(value).map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)))
}

/// A value as an integer: a real without its fraction, the number that a text begins with, otherwise 0.
pub(super) fn integer(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Integer(integer) => integer,
        // A cast stops at the ends of the range, as SQLite's does.
        #[allow(clippy::cast_possible_truncation, reason = "the fraction is to go")]
        ValueRef::Real(real) => real as i64,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => leading_integer(bytes),
    }
}

fn leading_integer(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits
        .fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(sign * i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_cast_reads_them() {
        let connection = rusqlite::Connection::open_in_memory().expect("memory");
        let texts =
            ["12", " -7x", "+3", "1e3", "2.9", "", "abc", "9223372036854775808", "-9999999999999999999"];
        for text in texts {
            let cast = "SELECT CAST(?1 AS INTEGER)";
            let expected: i64 = connection.query_row(cast, [text], |row| row.get(0)).expect("a row");
            assert_eq!(integer(ValueRef::Text(text.as_bytes())), expected, "{text:?}");
        }
        for real in [2.9, -2.9, 1e300, -1e300] {
            let cast = "SELECT CAST(?1 AS INTEGER)";
            let expected: i64 = connection.query_row(cast, [real], |row| row.get(0)).expect("a row");
            assert_eq!(integer(ValueRef::Real(real)), expected, "{real}");
        }
    }
}
