//! A cursor: where it goes, and what is written where it stands.

use super::{attempt, attempt_at, bytes};
use crate::codes::{self, Failure};
use crate::cursor::Cursor;
use crate::handle::Handle;
use crate::key::{Collation, Encoding, Field};
use crate::record::Value;
use fulmar_dbt::Tree;
use std::cmp::Ordering;
use std::ffi::c_int;
use std::ptr;

/// SQLITE_OK if a cursor found something to stand on, or else SQLITE_DONE.
fn found(found: bool) -> c_int {
    if found { codes::OK } else { codes::DONE }
}

fn order_of(number: c_int) -> Ordering {
    number.cmp(&0)
}

/// A cursor on a table; on an index after `fulmar_cursor_on_index`.
#[unsafe(no_mangle)]
extern "C" fn fulmar_cursor_open(handle: *mut Handle, root: u32) -> *mut Cursor {
    let mut cursor = ptr::null_mut();
    attempt(handle, |handle| {
        cursor = Box::into_raw(handle.take_cursor(Tree(root)));
        Ok(codes::OK)
    });
    cursor
}

/// Each byte of `fields` says how one field compares: bits 0 and 1 are the collation (binary, NOCASE, RTRIM), bit 2 is
/// set if it descends. `encoding` is SQLite's number.
#[unsafe(no_mangle)]
extern "C" fn fulmar_cursor_on_index(
    handle: *mut Handle,
    cursor: *mut Cursor,
    fields: *const u8,
    count: c_int,
    unique: c_int,
    encoding: c_int,
) -> c_int {
    // SAFETY: C passes an array of `count` bytes.
    let fields = unsafe { bytes(fields, usize::try_from(count).unwrap_or(0)) };
    attempt_at(handle, cursor, |_, cursor| {
        let fields = fields.iter().map(|field| Field {
            collation: match field & 3 {
                0 => Collation::Binary,
                1 => Collation::NoCase,
                _ => Collation::Rtrim,
            },
            descending: field & 4 != 0,
        });
        let encoding = match encoding {
            2 => Encoding::Utf16Le,
            3 => Encoding::Utf16Be,
            _ => Encoding::Utf8,
        };
        cursor.set_format(fields, usize::try_from(unique).unwrap_or(0), encoding);
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_cursor_close(handle: *mut Handle, cursor: *mut Cursor) {
    attempt(handle, |handle| {
        // SAFETY: fulmar_cursor_open made it by Box::into_raw, and C forgets it now.
        handle.return_cursor(unsafe { Box::from_raw(cursor) });
        Ok(codes::OK)
    });
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_first(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| cursor.first(handle.transaction()?).map(found))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_last(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| cursor.last(handle.transaction()?).map(found))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_next(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| cursor.next(handle.transaction()?).map(found))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_previous(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| cursor.previous(handle.transaction()?).map(found))
}

/// Whether the cursor now stands on that row by assumption.
#[unsafe(no_mangle)]
extern "C" fn fulmar_assume_row(handle: *mut Handle, cursor: *mut Cursor, row: i64) -> c_int {
    let mut assumed = false;
    attempt_at(handle, cursor, |handle, cursor| {
        assumed = handle.assume_row(cursor, row)?;
        Ok(codes::OK)
    });
    c_int::from(assumed)
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_load_row(handle: *mut Handle, cursor: *mut Cursor) {
    attempt_at(handle, cursor, |handle, cursor| handle.load_row(cursor).map(|()| codes::OK));
}

/// `side` becomes negative, zero or positive if the cursor then stands on a smaller row, that row, or a larger one; it stands
/// nowhere if that row is not there and no other will do.
#[unsafe(no_mangle)]
extern "C" fn fulmar_seek_row(
    handle: *mut Handle,
    cursor: *mut Cursor,
    row: i64,
    exact: c_int,
    side: *mut c_int,
) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| {
        let landed = handle.seek_row(cursor, row, exact != 0)?;
        // SAFETY: C passes where to put it.
        unsafe { *side = landed.unwrap_or(Ordering::Less) as c_int };
        Ok(found(landed.is_some()))
    })
}

/// A value to search for (`FulmarValue` in `c/glue.h`).
#[repr(C)]
struct RawValue {
    /// 0 NULL, 1 integer, 2 real, 3 text, 4 blob.
    kind: c_int,
    length: u32,
    /// Zero bytes after a blob.
    zeros: u32,
    integer: i64,
    real: f64,
    data: *const u8,
}

impl RawValue {
    /// # Safety
    /// `data` points to `length` bytes if it is a text or a blob.
    unsafe fn value(&self) -> Value<'_> {
        let length = usize::try_from(self.length).unwrap_or(0);
        match self.kind {
            1 => Value::Integer(self.integer),
            2 => Value::Real(self.real),
            // SAFETY: the caller's promise.
            3 => Value::Text(unsafe { bytes(self.data, length) }),
            4 => {
                let zeros = usize::try_from(self.zeros).unwrap_or(0);
                // SAFETY: the caller's promise.
                Value::Blob(unsafe { bytes(self.data, length) }, zeros)
            }
            _ => Value::Null,
        }
    }
}

/// `when_equal` and `side` as in `Cursor::seek_entry`; `equal` is set to 1 if the cursor stands on an entry that begins
/// with the values.
#[unsafe(no_mangle)]
extern "C" fn fulmar_seek_entry(
    handle: *mut Handle,
    cursor: *mut Cursor,
    values: *const RawValue,
    count: c_int,
    when_equal: c_int,
    side: *mut c_int,
    equal: *mut c_int,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: C passes an array of `count` values, at least one.
    let values = unsafe { std::slice::from_raw_parts(values, count) };
    attempt_at(handle, cursor, |handle, cursor| {
        // SAFETY: the texts and blobs are those of SQLite's registers, which do not change during the call.
        let values = values.iter().map(|value| unsafe { value.value() });
        let (landed, same) = cursor.seek_entry(handle.transaction()?, values, order_of(when_equal))?;
        // SAFETY: C passes where to put them.
        unsafe {
            *side = landed.unwrap_or(Ordering::Less) as c_int;
            *equal = c_int::from(same);
        }
        Ok(found(landed.is_some()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_restore(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| cursor.restore(handle.transaction()?).map(found))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_insert_row(
    handle: *mut Handle,
    cursor: *mut Cursor,
    row: i64,
    record: *const u8,
    length: c_int,
    zeros: c_int,
) -> c_int {
    // SAFETY: C passes `length` bytes.
    let record = unsafe { bytes(record, usize::try_from(length).unwrap_or(0)) };
    attempt_at(handle, cursor, |handle, cursor| {
        let transaction = handle.transaction_mut()?;
        match usize::try_from(zeros).unwrap_or(0) {
            0 => cursor.insert_row(transaction, row, record)?,
            zeros => {
                let mut whole = record.to_vec();
                whole.resize(record.len() + zeros, 0);
                cursor.insert_row(transaction, row, &whole)?;
            }
        }
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_insert_entry(
    handle: *mut Handle,
    cursor: *mut Cursor,
    record: *const u8,
    length: i64,
) -> c_int {
    // SAFETY: C passes `length` bytes.
    let record = unsafe { bytes(record, usize::try_from(length).unwrap_or(0)) };
    attempt_at(handle, cursor, |handle, cursor| {
        cursor.insert_entry(handle.transaction_mut()?, record).map(|()| codes::OK)
    })
}

/// Overwrites a part of the row on which the cursor stands.
#[unsafe(no_mangle)]
extern "C" fn fulmar_overwrite(
    handle: *mut Handle,
    cursor: *mut Cursor,
    offset: u32,
    data: *const u8,
    length: u32,
) -> c_int {
    // SAFETY: C passes `length` bytes.
    let data = unsafe { bytes(data, usize::try_from(length).unwrap_or(0)) };
    attempt_at(handle, cursor, |handle, cursor| {
        let mut record = cursor.record().to_vec();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(part) = record.get_mut(start..).and_then(|rest| rest.get_mut(..data.len())) else {
            return Err(Failure::new(codes::CORRUPT, "a blob is shorter than its row says"));
        };
        part.copy_from_slice(data);
        cursor.replace(handle.transaction_mut()?, &record).map(|()| codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_delete(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| cursor.delete(handle.transaction_mut()?).map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_keep(handle: *mut Handle, cursor: *mut Cursor) -> c_int {
    attempt_at(handle, cursor, |handle, cursor| {
        cursor.keep(handle.transaction_mut()?);
        Ok(codes::OK)
    })
}
