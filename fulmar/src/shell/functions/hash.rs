//! `sha3`, `sha3_agg` and `sha3_query`: digests of a value, of a column, of what queries answer.
//!
//! What covers several values hashes each with its type and length before it, so that no two lists of values are the
//! same bytes: `N`, `I` and 8 bytes, `F` and 8 bytes, `T5:` or `B5:` and 5 bytes. For a query `S`, its length and its
//! text come first, and an `R` before each row.

#![allow(unsafe_code, reason = "a function may only reach its own connection unsafely")]

use std::panic::AssertUnwindSafe;

use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;
use sha3::digest::DynDigest;
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use super::{DIRECT, FunctionError, PURE, value};
use crate::shell::statement::{Cell, Statement};

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    for arguments in [1, 2] {
        connection.create_scalar_function("sha3", arguments, PURE, |call| {
            let mut hash = hash_of_size(call)?;
            Ok(value::text(call.get_raw(0)).map(|bytes| {
                hash.update(&bytes);
                hash.finalize()
            }))
        })?;
        connection.create_aggregate_function("sha3_agg", arguments, PURE, OfColumn)?;
        connection.create_scalar_function("sha3_query", arguments, DIRECT, hash_query)?;
    }
    Ok(())
}

type Hash = Box<dyn DynDigest + Send>;

/// A hash of as many bits as the second argument says, 256 without one.
fn hash_of_size(call: &Context<'_>) -> rusqlite::Result<Hash> {
    match (call.len() > 1).then(|| value::integer(call.get_raw(1))) {
        Some(224) => Ok(Box::new(Sha3_224::default())),
        None | Some(256) => Ok(Box::new(Sha3_256::default())),
        Some(384) => Ok(Box::new(Sha3_384::default())),
        Some(512) => Ok(Box::new(Sha3_512::default())),
        Some(_) => Err(FunctionError::HashSize.into()),
    }
}

fn add(hash: &mut dyn DynDigest, value: ValueRef<'_>) {
    let mut sized = |letter: char, bytes: &[u8]| {
        hash.update(format!("{letter}{}:", bytes.len()).as_bytes());
        hash.update(bytes);
    };
    match value {
        ValueRef::Null => hash.update(b"N"),
        ValueRef::Integer(integer) => {
            hash.update(b"I");
            hash.update(&integer.to_be_bytes());
        }
        ValueRef::Real(real) => {
            hash.update(b"F");
            hash.update(&real.to_be_bytes());
        }
        ValueRef::Text(text) => sized('T', text),
        ValueRef::Blob(blob) => sized('B', blob),
    }
}

/// `sha3_agg`.
struct OfColumn;

impl Aggregate<AssertUnwindSafe<Hash>, Option<Vec<u8>>> for OfColumn {
    fn init(&self, call: &mut Context<'_>) -> rusqlite::Result<AssertUnwindSafe<Hash>> {
        // A hash that a panic has interrupted is never asked again.
        hash_of_size(call).map(AssertUnwindSafe)
    }

    fn step(&self, call: &mut Context<'_>, hash: &mut AssertUnwindSafe<Hash>) -> rusqlite::Result<()> {
        add(&mut *hash.0, call.get_raw(0));
        Ok(())
    }

    fn finalize(
        &self,
        _call: &mut Context<'_>,
        hash: Option<AssertUnwindSafe<Hash>>,
    ) -> rusqlite::Result<Option<Vec<u8>>> {
        Ok(hash.map(|hash| hash.0.finalize().into_vec()))
    }
}

fn hash_query(call: &Context<'_>) -> rusqlite::Result<Option<Box<[u8]>>> {
    let mut hash = hash_of_size(call)?;
    let Some(sql) = value::text(call.get_raw(0)) else { return Ok(None) };
    let sql = String::from_utf8_lossy(&sql);
    // SAFETY: the connection is used on this thread only, and not after the call.
    let connection = unsafe { call.get_connection() }?;
    let mut rest = &*sql;
    while !rest.is_empty() {
        let failed = |source| FunctionError::Query { sql: rest.to_owned(), source };
        let (statement, taken) = Statement::prepare(&connection, rest).map_err(failed)?;
        let (text, after) = rest.split_at(taken);
        rest = after;
        let Some(mut statement) = statement else { continue };
        if !statement.is_read_only() {
            return Err(FunctionError::NotAQuery { sql: text.to_owned() }.into());
        }
        hash.update(format!("S{}:{text}", text.len()).as_bytes());
        while statement.step().map_err(|source| FunctionError::Query { sql: text.to_owned(), source })? {
            hash.update(b"R");
            for cell in statement.row() {
                add(&mut *hash, value_of(cell));
            }
        }
    }
    Ok(Some(hash.finalize()))
}

fn value_of(cell: Cell<'_>) -> ValueRef<'_> {
    match cell {
        Cell::Null => ValueRef::Null,
        Cell::Integer(integer) => ValueRef::Integer(integer),
        Cell::Real(real, _) => ValueRef::Real(real),
        Cell::Text(text) => ValueRef::Text(text),
        Cell::Blob(blob) => ValueRef::Blob(blob),
    }
}
