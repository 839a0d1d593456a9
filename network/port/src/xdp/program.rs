//! The program that an interface runs for each frame: it gives those of queue 0 to a socket, and all others to the kernel.

use crate::bpf::{self, instruction};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

/// A place for the program at an interface: it is taken away with this value.
#[derive(Debug)]
pub(super) struct Program {
    _place: OwnedFd,
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
        let map = bpf::map(SOCKETS, 4, 1)?;
        bpf::put(map.as_fd(), 0, socket)?;
        let program = bpf::program(
            XDP_PROGRAM,
            &[
                // r2 = context.rx_queue_index; r1 = map; r3 = XDP_PASS, if the map has no such entry
                instruction(0x61, 0x12, 16, 0),
                instruction(0x18, 0x11, 0, map.as_raw_fd()),
                instruction(0, 0, 0, 0),
                instruction(0xb7, 0x03, 0, 2),
                // return bpf_redirect_map(r1, r2, r3)
                instruction(0x85, 0, 0, 51),
                instruction(0x95, 0, 0, 0),
            ],
        )?;
        // The link keeps the program, which keeps the map.
        Ok(Self { _place: bpf::attach(program.as_fd(), interface, XDP, GENERIC)? })
    }
}
