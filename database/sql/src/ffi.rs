//! What the C side calls. `build/header.rs` makes the prototypes from this file and those below it, and requires that each function is guarded
//! against panics.
//!
//! All calls for one handle, and for its cursors, happen under the mutex of the SQLite connection to which it belongs.
//! Result codes are SQLite's. A panic is caught and becomes `SQLITE_INTERNAL`: it must not unwind into C.

mod content;
mod cursor;
mod handle;
mod transaction;

use crate::codes::{self, Failure};
use crate::cursor::Cursor;
use crate::handle::Handle;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// # Safety
/// `data` points to `length` readable bytes, or `length` is 0.
unsafe fn bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, length) }
}
