//! At which of several sockets of an interface a frame comes in.
//!
//! At that for the processor on which it was sent: who sends there often waits for an answer, and is not woken from another one. A flow keeps
//! its socket, and so its order, until it is silent, as in the kernel's own receive flow steering (`Documentation/networking/scaling.rst`):
//! flows whose addresses and ports have the same hash are one here.

use crate::bpf::{self, Instruction, instruction};
use crate::kernel::{option, set_option};
use fulmar_packet::{ethernet, ip};
use libc::{
    PACKET_FANOUT, PACKET_FANOUT_DATA, PACKET_FANOUT_EBPF, PACKET_FANOUT_FLAG_IGNORE_OUTGOING,
    PACKET_FANOUT_FLAG_UNIQUEID, PACKET_FANOUT_HASH, SOL_PACKET,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// So long a flow is silent before its socket may be another: longer than frames wait to be taken out of a ring.
const SILENCE: Duration = Duration::from_millis(10);
/// Bits of a flow's hash.
const BITS: u32 = 12;
/// What is known of the flows of a hash: when its last frame came, in nanoseconds, and on which processor the first after a silence; and padding.
const FLOW_BYTES: u32 = 16;
/// `BPF_MAP_TYPE_ARRAY`…
const ARRAY: u32 = 2;
/// …and `BPF_PROG_TYPE_SOCKET_FILTER`.
const SOCKET_FILTER: u32 = 1;

/// From now on, a frame comes in at one of these sockets, which are at one interface.
pub(super) fn steer(sockets: &[impl AsFd]) -> io::Result<()> {
    let [first, others @ ..] = sockets else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    let program = program();
    let kind = if program.is_ok() { PACKET_FANOUT_EBPF } else { PACKET_FANOUT_HASH };
    let flags = PACKET_FANOUT_FLAG_UNIQUEID | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    set_option(first, SOL_PACKET, PACKET_FANOUT, &((kind | flags) << 16))?;
    if let Ok(program) = program {
        set_option(first, SOL_PACKET, PACKET_FANOUT_DATA, &program.as_raw_fd())?;
    }
    let group: u32 = option(first, SOL_PACKET, PACKET_FANOUT)?;
    others.iter().try_for_each(|other| set_option(other, SOL_PACKET, PACKET_FANOUT, &group))
}

/// It answers a processor, of which the kernel takes the remainder by the number of sockets.
fn program() -> io::Result<OwnedFd> {
    let flows = bpf::map(ARRAY, FLOW_BYTES, 1 << BITS)?;
    let kind = |kind: u16| i32::from(kind.to_be());
    let silence = i32::try_from(SILENCE.as_nanos()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // Frames are looked at from their network header on. What is not there when it is loaded ends the program, with 0.
    let add_word = |at: i32| [instruction(0x20, 0, 0, at), instruction(0x0f, 0x07, 0, 0)];
    let mut v6: Vec<Instruction> = (0..8).flat_map(|word| add_word(8 + 4 * word)).collect();
    v6.extend([
        // r8 = the next header; r9 = where the ports are
        instruction(0x30, 0, 0, 6),
        instruction(0xbf, 0x08, 0, 0),
        instruction(0xb7, 0x09, 0, 40),
    ]);
    let mut v4: Vec<Instruction> = [12, 16].into_iter().flat_map(add_word).collect();
    v4.extend([
        // A fragment's ports are in the first one only: to the end of this
        instruction(0x28, 0, 0, 6),
        instruction(0x57, 0, 0, 0x3fff),
        instruction(0x55, 0, 11, 0),
        // r8 = the protocol; r9 = where the ports are
        instruction(0x30, 0, 0, 9),
        instruction(0xbf, 0x08, 0, 0),
        instruction(0x30, 0, 0, 0),
        instruction(0x57, 0, 0, 0xf),
        instruction(0x67, 0, 0, 2),
        instruction(0xbf, 0x09, 0, 0),
    ]);
    let ports = [
        // TCP, UDP or SCTP, and otherwise to the end of this; r7 += ports
        instruction(0x15, 0x08, 2, ip::TCP.into()),
        instruction(0x15, 0x08, 1, ip::UDP.into()),
        instruction(0x55, 0x08, 2, ip::SCTP.into()),
        instruction(0x40, 0x90, 0, 0),
        instruction(0x0f, 0x07, 0, 0),
    ];
    let [to_v4, to_ports] = [v6.len() + 2, v4.len()].map(|jump| i16::try_from(jump).unwrap_or(i16::MAX));
    let past_all = to_v4 + to_ports + 5;
    let start = [
        // r6 = the frame; r7 = 0, the sum of what tells flows apart; by its type to IPv4, or past all of this, or on
        instruction(0xbf, 0x16, 0, 0),
        instruction(0xb7, 0x07, 0, 0),
        instruction(0x61, 0x62, 16, 0),
        instruction(0x15, 0x02, to_v4, kind(ethernet::IPV4)),
        instruction(0x55, 0x02, past_all - 1, kind(ethernet::IPV6)),
    ];
    let past_v4 = [instruction(0x05, 0, to_ports, 0)];
    let known = [
        // r7 = its hash (Knuth's multiplicative one), put where it can be pointed at
        instruction(0x24, 0x07, 0, 0x9e37_79b1_u32.cast_signed()),
        instruction(0x74, 0x07, 0, (u32::BITS - BITS).cast_signed()),
        instruction(0x63, 0x7a, -4, 0),
        // r7 = the flow: bpf_map_lookup_elem(flows, hash), or return 0
        instruction(0x18, 0x11, 0, flows.as_raw_fd()),
        instruction(0, 0, 0, 0),
        instruction(0xbf, 0xa2, 0, 0),
        instruction(0x07, 0x02, 0, -4),
        instruction(0x85, 0, 0, 1),
        instruction(0x15, 0, 10, 0),
        instruction(0xbf, 0x07, 0, 0),
        // r8 = bpf_ktime_get_ns() - flow.last; flow.last += r8
        instruction(0x85, 0, 0, 5),
        instruction(0xbf, 0x08, 0, 0),
        instruction(0x79, 0x71, 0, 0),
        instruction(0x7b, 0x87, 0, 0),
        instruction(0x1f, 0x18, 0, 0),
        // if it is not below the silence: flow.processor = bpf_get_smp_processor_id()
        instruction(0xc5, 0x08, 2, silence),
        instruction(0x85, 0, 0, 8),
        instruction(0x63, 0x07, 8, 0),
        // return flow.processor
        instruction(0x61, 0x70, 8, 0),
        instruction(0x95, 0, 0, 0),
    ];
    let parts = start.into_iter().chain(v6).chain(past_v4).chain(v4).chain(ports).chain(known);
    // It keeps the map.
    bpf::program(SOCKET_FILTER, &parts.collect::<Vec<_>>())
}
