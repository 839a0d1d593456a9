//! The program that an interface runs for each frame: it gives those of queue 0 to a socket, and all others to the kernel.

#![allow(unsafe_code, reason = "`bpf(2)` takes structures by address")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

/// A place for the program at an interface: it is taken away with this value.
#[derive(Debug)]
pub(super) struct Program {
    _place: OwnedFd,
}

/// `struct bpf_insn`.
#[repr(C)]
struct Instruction {
    code: u8,
    /// The register that is written; and in the upper half the one that is read.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {
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

/// `BPF_MAP_TYPE_XSKMAP`: sockets by the numbers of queues.
const SOCKETS: u32 = 17;
/// `BPF_PROG_TYPE_XDP`…
const XDP_PROGRAM: u32 = 6;
/// …and `BPF_XDP`, where such programs belong.
const XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE`: run by the kernel, whatever the driver.
const GENERIC: u32 = 2;

impl Program {
    /// Has an interface give its frames to a socket.
    pub(super) fn attach(interface: u32, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let map = CreateMap { kind: SOCKETS, key_bytes: 4, value_bytes: 4, most_entries: 1 };
        let map = file(call(&map)?)?;
        let (queue, socket) = (0u32, socket.as_raw_fd());
        call(&UpdateMap { map: map.as_raw_fd(), key: &raw const queue, value: &raw const socket, flags: 0 })?;
        let instructions = [
            // r2 = context.rx_queue_index; r1 = map; r3 = XDP_PASS, if the map has no such entry
            instruction(0x61, 0x12, 16, 0),
            instruction(0x18, 0x11, 0, map.as_raw_fd()),
            instruction(0, 0, 0, 0),
            instruction(0xb7, 0x03, 0, 2),
            // return bpf_redirect_map(r1, r2, r3)
            instruction(0x85, 0, 0, 51),
            instruction(0x95, 0, 0, 0),
        ];
        let program = call(&LoadProgram {
            kind: XDP_PROGRAM,
            instruction_count: 6,
            instructions: instructions.as_ptr(),
            license: c"Apache-2.0".as_ptr(),
        })?;
        let program = file(program)?;
        let link = CreateLink { program: program.as_raw_fd(), interface, place: XDP, flags: GENERIC };
        // The link keeps the program, which keeps the map.
        Ok(Self { _place: file(call(&link)?)? })
    }
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
