//! The functions of the C library that change files, defined by this program: its own definitions take precedence over
//! those of libc.so, for Rust's standard library as for SQLite. Each makes the system call, and tells the recorder.
//!
//! Below the watched directory no call syncs anything in truth: what a sync would do is the model's business.

#![expect(unsafe_code, reason = "these are functions of C, with C's arguments")]

use crate::recorder::{self, Call, Verdict};
use libc::{c_char, c_int, c_long, c_uint, c_void, mode_t, off_t, off64_t, size_t, ssize_t};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

fn fail(errno: c_int) -> c_int {
    // SAFETY: the location of this thread's `errno` is valid for as long as the thread lives.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// # Safety
/// `path` is null or a C string that lives for as long as the result is used.
unsafe fn path_of<'a>(path: *const c_char) -> &'a Path {
    if path.is_null() {
        return Path::new("");
    }
    // SAFETY: not null, so a C string, as the caller promises.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()))
}

/// The path that `path` is, seen from the directory `directory`.
fn at(directory: c_int, path: &Path) -> PathBuf {
    if directory == libc::AT_FDCWD || path.is_absolute() {
        return path.into();
    }
    std::fs::read_link(format!("/proc/self/fd/{directory}")).unwrap_or_default().join(path)
}

#[expect(clippy::cast_possible_truncation, reason = "these system calls answer an int")]
fn int(result: c_long) -> c_int {
    result as c_int
}

#[expect(clippy::cast_possible_truncation, reason = "these system calls answer a count of bytes, or -1")]
fn size(result: c_long) -> ssize_t {
    result as ssize_t
}

macro_rules! system_call {
    ($number:ident $(, $argument:expr)*) => {
        // SAFETY: the arguments are those of the function of the same name, whose caller answers for them.
        unsafe { libc::syscall(libc::$number $(, $argument)*) }
    };
}

/// Where the next write to `file` goes; after one, where that ended, also if it was appended.
pub(crate) fn position(file: c_int) -> u64 {
    u64::try_from(system_call!(SYS_lseek, file, 0, libc::SEEK_CUR)).unwrap_or(0)
}

/// Appends all of `bytes` to `file`, unwatched, or ends the process.
pub(crate) fn append(file: &File, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = system_call!(SYS_write, file.as_raw_fd(), bytes.as_ptr(), bytes.len());
        match usize::try_from(written) {
            Ok(written) => bytes = &bytes[written..],
            Err(_) => std::process::abort(),
        }
    }
}

/// # Safety
/// As open(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let open = || int(system_call!(SYS_openat, libc::AT_FDCWD, path, flags, mode));
    // SAFETY: `path` is the caller's C string, which outlives this call.
    let name = unsafe { path_of(path) };
    recorder::open(name, flags, fail, open)
}

/// # Safety
/// As open(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the same function on 64-bit systems.
    unsafe { open64(path, flags, mode) }
}

/// # Safety
/// As close(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn close(file: c_int) -> c_int {
    recorder::close(file, || int(system_call!(SYS_close, file)))
}

/// # Safety
/// As write(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn write(file: c_int, data: *const c_void, count: size_t) -> ssize_t {
    recorder::write(file, None, count, |verdict| match verdict {
        Verdict::Fails(errno) => (fail(errno) as ssize_t, &[]),
        Verdict::Takes(count) => {
            let written = size(system_call!(SYS_write, file, data, count));
            // SAFETY: so many bytes were just read from there by the system.
            (written, unsafe { written_bytes(data, written) })
        }
    })
}

/// # Safety
/// As pwrite(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(file: c_int, data: *const c_void, count: size_t, offset: off64_t) -> ssize_t {
    recorder::write(file, Some(offset), count, |verdict| match verdict {
        Verdict::Fails(errno) => (fail(errno) as ssize_t, &[]),
        Verdict::Takes(count) => {
            let written = size(system_call!(SYS_pwrite64, file, data, count, offset));
            // SAFETY: so many bytes were just read from there by the system.
            (written, unsafe { written_bytes(data, written) })
        }
    })
}

/// # Safety
/// As pwrite(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(file: c_int, data: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    // SAFETY: the same function on 64-bit systems.
    unsafe { pwrite64(file, data, count, offset) }
}

/// As the standard allows, no more than the first buffer that is not empty is written.
///
/// # Safety
/// As writev(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(file: c_int, buffers: *const libc::iovec, count: c_int) -> ssize_t {
    if !recorder::watches(file) {
        return size(system_call!(SYS_writev, file, buffers, count));
    }
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: `buffers` are the caller's, `count` of them.
        let buffer = unsafe { &*buffers.add(index) };
        if buffer.iov_len > 0 {
            // SAFETY: a buffer of the caller's.
            return unsafe { write(file, buffer.iov_base, buffer.iov_len) };
        }
    }
    0
}

/// # Safety
/// `written` bytes at `data`, if any, can be read for as long as the result is used.
unsafe fn written_bytes<'a>(data: *const c_void, written: ssize_t) -> &'a [u8] {
    match usize::try_from(written) {
        // SAFETY: as the caller promises.
        Ok(length) if length > 0 => unsafe { std::slice::from_raw_parts(data.cast(), length) },
        _ => &[],
    }
}

#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    recorder::on_file(
        file,
        Call::Sync,
        fail,
        |watched| {
            if watched { 0 } else { int(system_call!(SYS_fsync, file)) }
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    recorder::on_file(file, Call::SyncData, fail, |watched| {
        if watched { 0 } else { int(system_call!(SYS_fdatasync, file)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(file: c_int, length: off64_t) -> c_int {
    let call = Call::Resize(u64::try_from(length).unwrap_or(0));
    recorder::on_file(file, call, fail, |_| int(system_call!(SYS_ftruncate, file, length)))
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate(file: c_int, length: off_t) -> c_int {
    ftruncate64(file, length)
}

/// # Safety
/// As renameat2(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's C strings, which outlive this call.
    let names = unsafe { (at(from_directory, path_of(from)), at(to_directory, path_of(to))) };
    recorder::on_name(&names.0, Call::Rename(&names.1), fail, || {
        int(system_call!(SYS_renameat2, from_directory, from, to_directory, to, flags))
    })
}

/// # Safety
/// As renameat(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: without flags the same function.
    unsafe { renameat2(from_directory, from, to_directory, to, 0) }
}

/// # Safety
/// As rename(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the same function, from the current directory.
    unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

/// # Safety
/// As unlinkat(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's C string, which outlives this call.
    let name = at(directory, unsafe { path_of(path) });
    let call = if flags & libc::AT_REMOVEDIR == 0 { Call::Remove } else { Call::RemoveDirectory };
    recorder::on_name(&name, call, fail, || int(system_call!(SYS_unlinkat, directory, path, flags)))
}

/// # Safety
/// As unlink(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the same function, from the current directory.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

/// # Safety
/// As rmdir(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the same function, from the current directory.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// # Safety
/// As mkdir(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's C string, which outlives this call.
    let name = unsafe { path_of(path) };
    recorder::on_name(name, Call::MakeDirectory, fail, || {
        int(system_call!(SYS_mkdirat, libc::AT_FDCWD, path, mode))
    })
}

/// Copies into a watched file go through `write`, which callers fall back to.
///
/// # Safety
/// As copy_file_range(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off64_t,
    to: c_int,
    to_offset: *mut off64_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    if recorder::watches(to) {
        return fail(libc::ENOSYS) as ssize_t;
    }
    size(system_call!(SYS_copy_file_range, from, from_offset, to, to_offset, count, flags))
}

/// As [`copy_file_range`].
///
/// # Safety
/// As sendfile(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
    if recorder::watches(to) {
        return fail(libc::ENOSYS) as ssize_t;
    }
    size(system_call!(SYS_sendfile, to, from, offset, count))
}
