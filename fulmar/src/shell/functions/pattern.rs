//! `regexp(PATTERN, STRING)`, which SQLite calls for `STRING REGEXP PATTERN`, and `regexpi`, which ignores case.

use regex::bytes::{Regex, RegexBuilder};
use rusqlite::Connection;
use rusqlite::functions::Context;
use rusqlite::types::ValueRef;

use super::{FunctionError, PURE, value};

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_scalar_function("regexp", 2, PURE, |call| matches(call, false))?;
    connection.create_scalar_function("regexpi", 2, PURE, |call| matches(call, true))
}

fn matches(call: &Context<'_>, ignore_case: bool) -> rusqlite::Result<Option<bool>> {
    let is_null = |at| call.get_raw(at) == ValueRef::Null;
    if is_null(0) || is_null(1) {
        return Ok(None);
    }
    // SQLite keeps it for the next row where the pattern is a constant.
    let regex = call.get_or_create_aux(0, |pattern| compile(pattern, ignore_case))?;
    Ok(value::text(call.get_raw(1)).map(|text| regex.is_match(&text)))
}

fn compile(pattern: ValueRef<'_>, ignore_case: bool) -> rusqlite::Result<Regex> {
    let pattern = value::text(pattern).unwrap_or_default();
    let pattern = String::from_utf8_lossy(&pattern);
    // In SQLite's, too, a dot is any character.
    let built = RegexBuilder::new(&pattern).case_insensitive(ignore_case).dot_matches_new_line(true).build();
    Ok(built.map_err(|error| {
        // The lines before the last draw where it is.
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
        FunctionError::Pattern { pattern: pattern.into_owned(), reason }
    })?)
}
