//! A handle: how its database is opened, how it behaves, and what went wrong.

use super::{attempt, bug, guarded, look};
use crate::codes::{self, Failure};
use crate::handle::Handle;
use crate::markers;
use crate::name::{self, Access, Immediate};
use fulmar_dbt::Durability;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

thread_local! {
    /// Why the last attempt of this thread to open a database failed.
    static OPEN_FAILURE: RefCell<CString> = RefCell::default();
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
