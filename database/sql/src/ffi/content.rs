//! What a database holds: its trees, and the values of its header.

use super::{attempt, bytes, look};
use crate::codes;
use crate::handle::Handle;
use fulmar_dbt::Tree;
use std::ffi::{CString, c_char, c_int, c_void};

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
