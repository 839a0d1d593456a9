//! Programs that the kernel runs, and their maps (`bpf(2)`).

#![allow(unsafe_code, reason = "`bpf(2)` takes structures by address")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

/// `struct bpf_insn`.
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// The register that is written; and in the upper half the one that is read.
    registers: u8,
    offset: i16,
    immediate: i32,
}

pub(crate) const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers, offset, immediate }
}

/// What is asked of `bpf(2)`, and of it the part of `union bpf_attr` that it needs.
trait Command {
    const NUMBER: libc::c_long;
}

#[repr(C)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    most_entries: u32,
}

impl Command for CreateMap {
    const NUMBER: libc::c_long = 0;
}

#[repr(C)]
struct UpdateMap {
    map: RawFd,
    key: *const u32,
    value: *const RawFd,
    flags: u64,
}

impl Command for UpdateMap {
    const NUMBER: libc::c_long = 2;
}

#[repr(C)]
struct LoadProgram {
    kind: u32,
    instruction_count: u32,
    instructions: *const Instruction,
    license: *const libc::c_char,
}

impl Command for LoadProgram {
    const NUMBER: libc::c_long = 5;
}

#[repr(C)]
struct CreateLink {
    program: RawFd,
    interface: u32,
    place: u32,
    flags: u32,
}

impl Command for CreateLink {
    const NUMBER: libc::c_long = 28;
}

/// A map of so many entries, each under a number of four bytes.
pub(crate) fn map(kind: u32, value_bytes: u32, most_entries: u32) -> io::Result<OwnedFd> {
    file(call(&CreateMap { kind, key_bytes: 4, value_bytes, most_entries })?)
}

/// Puts a file in a map, whose values are such.
pub(crate) fn put(map: BorrowedFd<'_>, key: u32, value: BorrowedFd<'_>) -> io::Result<()> {
    let value = value.as_raw_fd();
    let entry = UpdateMap { map: map.as_raw_fd(), key: &raw const key, value: &raw const value, flags: 0 };
    call(&entry).map(drop)
}

/// A program, which the kernel has checked.
pub(crate) fn program(kind: u32, instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let instruction_count = u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let license = c"Apache-2.0".as_ptr();
    file(call(&LoadProgram { kind, instruction_count, instructions: instructions.as_ptr(), license })?)
}

/// Has an interface run a program there; no longer when what this answers is closed.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, place: u32, flags: u32) -> io::Result<OwnedFd> {
    file(call(&CreateLink { program: program.as_raw_fd(), interface, place, flags })?)
}

fn call<T: Command>(command: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads the structure and what is at the addresses in it, all of which outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, T::NUMBER, ptr::from_ref(command), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// The file that a call has answered.
fn file(answer: libc::c_long) -> io::Result<OwnedFd> {
    let number = RawFd::try_from(answer).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just opened it for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
