//! Disturbs the clock and the disk of a process that it is preloaded into (`LD_PRELOAD`).
//!
//! A machine has one clock, and a frozen file system leaves processes that nobody can kill. So both are disturbed where a
//! process calls the C library. `FULMAR_DISTURB` names a file of two little-endian numbers of 64 bits, which can be
//! written at any time: by how many seconds the real-time clock is ahead; and whether syncs hang until it is zero.

#![expect(unsafe_code, reason = "these are functions of C, with C's arguments")]

use libc::{c_int, c_void, clockid_t, timespec};
use std::fs::File;
use std::mem::transmute;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// What the file holds, and is seen while it changes.
#[repr(C)]
struct Control {
    ahead: AtomicI64,
    hangs: AtomicI64,
}

fn control() -> Option<&'static Control> {
    static CONTROL: OnceLock<Option<&'static Control>> = OnceLock::new();
    *CONTROL.get_or_init(|| {
        let file = File::open(std::env::var_os("FULMAR_DISTURB")?).ok()?;
        let length = size_of::<Control>();
        // SAFETY: a new mapping, at an address of the system's choice.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        // SAFETY: it is mapped until the process ends, on a page's border, and only ever read here.
        (place != libc::MAP_FAILED).then(|| unsafe { &*place.cast::<Control>() })
    })
}

/// The C library's own function of this name.
fn next(name: &'static std::ffi::CStr, known: &OnceLock<usize>) -> *mut c_void {
    // SAFETY: the name is a C string.
    let find = || unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    *known.get_or_init(find) as *mut c_void
}

/// # Safety
/// As clock_gettime(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    static NEXT: OnceLock<usize> = OnceLock::new();
    // SAFETY: that is its type.
    let next: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int =
        unsafe { transmute(next(c"clock_gettime", &NEXT)) };
    // SAFETY: the caller's arguments.
    let result = unsafe { next(clock, time) };
    if result == 0
        && clock == libc::CLOCK_REALTIME
        && let Some(control) = control()
    {
        // SAFETY: it was just written.
        unsafe { (*time).tv_sec += i64::from_le(control.ahead.load(Relaxed)) };
    }
    result
}

fn hang() {
    while control().is_some_and(|control| control.hangs.load(Relaxed) != 0) {
        thread::sleep(Duration::from_millis(5));
    }
}

#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    static NEXT: OnceLock<usize> = OnceLock::new();
    hang();
    // SAFETY: that is its type, and it may be called with any number.
    unsafe { transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(next(c"fsync", &NEXT))(file) }
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    static NEXT: OnceLock<usize> = OnceLock::new();
    hang();
    // SAFETY: that is its type, and it may be called with any number.
    unsafe { transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(next(c"fdatasync", &NEXT))(file) }
}
