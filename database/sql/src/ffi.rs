//! What the C side calls. `build/header.rs` makes the prototypes from this file, in the same order, and requires that each function is guarded
//! against panics.
//!
//! All calls for one handle, and for its cursors, happen under the mutex of the SQLite connection to which it belongs.
//! Result codes are SQLite's. A panic is caught and becomes `SQLITE_INTERNAL`: it must not unwind into C.

use crate::codes::{self, Failure};
use crate::cursor::Cursor;
use crate::handle::{Handle, Level};
use crate::key::{Collation, Encoding, Field};
use crate::markers;
use crate::name::{self, Access, Immediate};
use crate::record::Value;
use fulmar_dbt::{Durability, Tree};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

thread_local! {
    /// Why the last attempt of this thread to open a database failed.
    static OPEN_FAILURE: RefCell<CString> = RefCell::default();
}

/// Runs `work`; comes to `otherwise` if it panics.
fn guarded<T>(otherwise: impl FnOnce() -> T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| otherwise())
}

/// What a panic comes to.
fn bug<T>() -> Result<T, Failure> {
    Err(Failure::new(codes::INTERNAL, "a bug in Fulmar: see the panic's message"))
}

/// Looks at a handle; comes to `otherwise` if that panics.
fn look<T>(handle: *const Handle, otherwise: T, look: impl FnOnce(&Handle) -> T) -> T {
    // SAFETY: as in `attempt`.
    let handle = unsafe { &*handle };
    guarded(|| otherwise, || look(handle))
}

/// Runs `work` on a handle; a failure is remembered in it.
fn attempt(handle: *mut Handle, work: impl FnOnce(&mut Handle) -> Result<c_int, Failure>) -> c_int {
    // SAFETY: C passes a handle that fulmar_open made and fulmar_close has not taken, under its connection's mutex, so
    // nothing else refers to it during the call.
    let handle = unsafe { &mut *handle };
    match guarded(bug, || work(handle)) {
        Ok(code) => code,
        Err(failure) => handle.fail(failure),
    }
}

/// Runs `work` on a handle and one of its cursors.
fn attempt_at(
    handle: *mut Handle,
    cursor: *mut Cursor,
    work: impl FnOnce(&mut Handle, &mut Cursor) -> Result<c_int, Failure>,
) -> c_int {
    // SAFETY: as for the handle; fulmar_cursor_open made the cursor, and a cursor is never part of a handle in use.
    let cursor = unsafe { &mut *cursor };
    attempt(handle, |handle| work(handle, cursor))
}

/// SQLITE_OK if a cursor found something to stand on, or else SQLITE_DONE.
fn found(found: bool) -> c_int {
    if found { codes::OK } else { codes::DONE }
}

/// # Safety
/// `data` points to `length` readable bytes, or `length` is 0.
unsafe fn bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, length) }
}

fn order_of(number: c_int) -> Ordering {
    number.cmp(&0)
}

/// Whether a file of that name, in the file system, is ours by `FULMAR_DATABASES`.
#[unsafe(no_mangle)]
extern "C" fn fulmar_redirects(name: *const c_char) -> c_int {
    // SAFETY: C passes a terminated string.
    let name = unsafe { CStr::from_ptr(name) };
    guarded(|| 0, || c_int::from(name.to_str().is_ok_and(markers::matches)))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_open(
    name: *const c_char,
    may_write: c_int,
    may_create: c_int,
    out: *mut *mut Handle,
) -> c_int {
    // SAFETY: C passes a terminated string.
    let name = unsafe { CStr::from_ptr(name) };
    let access = match (may_write != 0, may_create != 0) {
        (true, true) => Access::ReadWriteCreate,
        (true, false) => Access::ReadWrite,
        (false, _) => Access::Read,
    };
    let opened = guarded(bug, || {
        let name =
            name.to_str().map_err(|_| Failure::new(codes::CANTOPEN, "the database's name is not UTF-8"))?;
        if name::is_ours(name) { Handle::open(name, access) } else { markers::open(name, access) }
    });
    let failure = match opened {
        Ok(handle) => {
            // SAFETY: C passes where to put it.
            unsafe { *out = Box::into_raw(Box::new(handle)) };
            return codes::OK;
        }
        Err(failure) => failure,
    };
    let message = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
    OPEN_FAILURE.with(|last| *last.borrow_mut() = message);
    failure.code
}

/// The message of the failure to open that this thread met last, or null if it has been asked for; valid until the
/// thread opens another.
#[unsafe(no_mangle)]
extern "C" fn fulmar_open_failure(forget: c_int) -> *const c_char {
    let tell = |last: &RefCell<CString>| {
        if forget != 0 {
            *last.borrow_mut() = CString::default();
        }
        let message = last.borrow();
        if message.is_empty() { ptr::null() } else { message.as_ptr() }
    };
    guarded(ptr::null, || OPEN_FAILURE.with(tell))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_close(handle: *mut Handle) {
    // SAFETY: fulmar_open made it by Box::into_raw, and C forgets it now.
    let handle = unsafe { Box::from_raw(handle) };
    // A panic while closing leaves nothing that could be done about it.
    guarded(|| (), || drop(handle));
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_name(handle: *const Handle) -> *const c_char {
    look(handle, ptr::null(), |handle| handle.name().as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_is_read_only(handle: *const Handle) -> c_int {
    look(handle, 0, |handle| c_int::from(handle.is_read_only()))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_fail(handle: *mut Handle, code: c_int, message: *const c_char) -> c_int {
    // SAFETY: C passes a terminated string.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    attempt(handle, |_| Err(Failure::new(code, message)))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_failure(handle: *const Handle, code: c_int) -> *const c_char {
    look(handle, ptr::null(), |handle| handle.failure(code).map_or(ptr::null(), |message| message.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_set_synced(handle: *mut Handle, synced: c_int) {
    attempt(handle, |handle| {
        handle.set_durability(if synced != 0 { Durability::Synced } else { Durability::Written });
        Ok(codes::OK)
    });
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_begin(handle: *mut Handle, level: c_int, keep_base: c_int) -> c_int {
    let level = match level {
        0 => Level::Read,
        1 => Level::Write,
        _ => Level::Exclusive,
    };
    attempt(handle, |handle| handle.begin(level, keep_base != 0).map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_commit(handle: *mut Handle) -> c_int {
    attempt(handle, |handle| handle.commit().map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_end(handle: *mut Handle, keep_reading: c_int) -> c_int {
    attempt(handle, |handle| handle.end(keep_reading != 0).map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_open_savepoints(handle: *mut Handle, count: c_int) -> c_int {
    attempt(handle, |handle| handle.open_savepoints(usize::try_from(count).unwrap_or(0)).map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_release_savepoint(handle: *mut Handle, index: c_int) -> c_int {
    attempt(handle, |handle| {
        handle.release_savepoint(usize::try_from(index).unwrap_or(0)).map(|()| codes::OK)
    })
}

/// A negative index stands for the beginning of the transaction.
#[unsafe(no_mangle)]
extern "C" fn fulmar_undo_savepoint(handle: *mut Handle, index: c_int) -> c_int {
    attempt(handle, |handle| handle.undo_savepoint(usize::try_from(index).ok()).map(|()| codes::OK))
}

/// `beside` is the root of the table that the tree is an index of, or 0.
#[unsafe(no_mangle)]
extern "C" fn fulmar_create_tree(handle: *mut Handle, beside: u32, root: *mut u32) -> c_int {
    attempt(handle, |handle| {
        let transaction = handle.transaction_mut()?;
        let tree = match beside {
            0 => transaction.create_tree()?,
            table => transaction.create_tree_beside(Tree(table))?,
        };
        // SAFETY: C passes where to put it.
        unsafe { *root = tree.0 };
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_drop_tree(handle: *mut Handle, root: u32) -> c_int {
    attempt(handle, |handle| {
        handle.transaction_mut()?.drop_tree(Tree(root))?;
        Ok(codes::OK)
    })
}

/// `entries` may be null; or else what it holds grows by the number of entries removed.
#[unsafe(no_mangle)]
extern "C" fn fulmar_clear_tree(handle: *mut Handle, root: u32, entries: *mut i64) -> c_int {
    attempt(handle, |handle| {
        let removed = handle.clear(Tree(root), !entries.is_null())?;
        if !entries.is_null() {
            // SAFETY: C passes null or a number it has set.
            unsafe { *entries += i64::try_from(removed).unwrap_or(i64::MAX) };
        }
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_count(handle: *mut Handle, root: u32, entries: *mut i64) -> c_int {
    attempt(handle, |handle| {
        let count = handle.transaction()?.count(Tree(root))?;
        // SAFETY: C passes where to put it.
        unsafe { *entries = i64::try_from(count).unwrap_or(i64::MAX) };
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_schema_cookie(handle: *mut Handle, cookie: *mut u32) -> c_int {
    attempt(handle, |handle| {
        let value = handle.schema_cookie()?;
        // SAFETY: C passes where to put it.
        unsafe { *cookie = value };
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_meta(handle: *mut Handle, index: c_int, value: *mut u32) -> c_int {
    attempt(handle, |handle| {
        let meta = handle.meta(usize::try_from(index).unwrap_or(0))?;
        // SAFETY: C passes where to put it.
        unsafe { *value = meta };
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_set_meta(handle: *mut Handle, index: c_int, value: u32) -> c_int {
    attempt(handle, |handle| handle.set_meta(usize::try_from(index).unwrap_or(0), value).map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_data_version(handle: *const Handle) -> u32 {
    look(handle, 0, Handle::data_version)
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_round_trips(handle: *const Handle) -> i64 {
    look(handle, 0, Handle::round_trips)
}

/// How long servers may take to answer; zero, as long as they do if nothing is said.
#[unsafe(no_mangle)]
extern "C" fn fulmar_set_limit(handle: *mut Handle, milliseconds: i64) {
    let limit = u64::try_from(milliseconds).ok().filter(|limit| *limit > 0).map(Duration::from_millis);
    attempt(handle, |handle| {
        handle.set_limit(limit);
        Ok(codes::OK)
    });
}

/// When this is not zero, servers are waited for no longer.
#[unsafe(no_mangle)]
extern "C" fn fulmar_heed(handle: *mut Handle, interrupted: *mut c_int) {
    // SAFETY: it is a number of the connection, which SQLite reads and writes as an atomic. The connection closes its handles before it ends,
    // and what is asked of a handle's servers nobody else asks: each handle has a client of its own.
    let interrupted = unsafe { AtomicI32::from_ptr(interrupted) };
    attempt(handle, |handle| {
        handle.heed(interrupted);
        Ok(codes::OK)
    });
}

/// About how many bytes it takes on the disk.
#[unsafe(no_mangle)]
extern "C" fn fulmar_bytes(handle: *mut Handle, bytes: *mut i64) -> c_int {
    attempt(handle, |handle| {
        let taken = handle.bytes()?;
        // SAFETY: C passes where to put it.
        unsafe { *bytes = i64::try_from(taken).unwrap_or(i64::MAX) };
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_immediate_is_exclusive(handle: *const Handle) -> c_int {
    look(handle, 0, |handle| c_int::from(handle.immediate() == Immediate::Exclusive))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_set_immediate(handle: *mut Handle, value: *const c_char) -> c_int {
    // SAFETY: C passes a terminated string.
    let value = unsafe { CStr::from_ptr(value) }.to_str().ok().and_then(Immediate::parse);
    attempt(handle, |handle| {
        let value = value.ok_or_else(|| Failure::new(codes::ERROR, "expected shared or exclusive"))?;
        handle.set_immediate(value);
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_has_content(handle: *mut Handle) -> c_int {
    let mut content = false;
    let code = attempt(handle, |handle| {
        content = handle.has_content()?;
        Ok(codes::OK)
    });
    // What cannot be read is not empty.
    c_int::from(content || code != codes::OK)
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_empty(handle: *mut Handle) -> c_int {
    attempt(handle, |handle| handle.empty().map(|()| codes::OK))
}

/// Calls `report` with `context` and each thing that is wrong with a tree.
#[unsafe(no_mangle)]
extern "C" fn fulmar_check(
    handle: *mut Handle,
    root: u32,
    context: *mut c_void,
    report: extern "C" fn(*mut c_void, *const c_char),
) -> c_int {
    attempt(handle, |handle| {
        for line in handle.transaction()?.check(Tree(root))? {
            let line = CString::new(line.replace('\0', " ")).unwrap_or_default();
            report(context, line.as_ptr());
        }
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_pick_rowid(handle: *mut Handle, root: u32, row: *mut i64) -> c_int {
    attempt(handle, |handle| {
        // SAFETY: C passes where the next row would be, and where to put the one that is picked.
        unsafe { *row = handle.pick_rowid(Tree(root), *row)? };
        Ok(codes::OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_raise_sequence(
    handle: *mut Handle,
    root: u32,
    row: i64,
    record: *const u8,
    length: c_int,
) -> c_int {
    // SAFETY: C passes a record of `length` bytes.
    let record = unsafe { bytes(record, usize::try_from(length).unwrap_or(0)) };
    attempt(handle, |handle| handle.raise_sequence(Tree(root), row, record).map(|()| codes::OK))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_queue_to_retry(handle: *const Handle) -> c_int {
    look(handle, 0, |handle| c_int::from(handle.queue_to_retry()))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_press(handle: *const Handle) {
    look(handle, (), Handle::press);
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_leave_retry(handle: *const Handle) {
    look(handle, (), Handle::leave_retry);
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

#[unsafe(no_mangle)]
extern "C" fn fulmar_let_assume(handle: *mut Handle, ready: c_int) {
    attempt(handle, |handle| {
        handle.let_assume(ready != 0);
        Ok(codes::OK)
    });
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_was_misled(handle: *const Handle, code: c_int) -> c_int {
    look(handle, 0, |handle| c_int::from(handle.was_misled(code)))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_is_far(handle: *const Handle) -> c_int {
    look(handle, 0, |handle| c_int::from(handle.is_far()))
}

#[unsafe(no_mangle)]
extern "C" fn fulmar_let_read_one_row(handle: *mut Handle, ready: c_int) {
    attempt(handle, |handle| {
        handle.let_read_one_row(ready != 0);
        Ok(codes::OK)
    });
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
