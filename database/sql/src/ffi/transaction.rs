//! A transaction and its savepoints; and statements that are transactions of their own: what they may assume, and when they run again.

use super::{attempt, look};
use crate::codes;
use crate::handle::{Handle, Level};
use std::ffi::c_int;

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
