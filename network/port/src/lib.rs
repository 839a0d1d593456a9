//! Frames in and out of the kernel, for a switch in user space.
//!
//! *Known as:* packet I/O (netdev): AF_PACKET, AF_XDP, TAP; TSO, GRO and checksum offload.
//!
//! # The problem
//!
//! A switch in user space is as fast as frames get to it and away from it. The kernel has several ways, each with its own rings,
//! headers and calls; and where hosts count on offloads, what comes is no frame yet: its checksum is open, and it is 64 KiB long.
//!
//! # The idea
//!
//! A [`Port`] hands over [`Frame`]s where they lie, in batches, with room before them for tags and tunnels; and with what is left
//! to be done to them, as an [`Offload`], which goes along. So a segment of 64 KiB crosses the switch as one frame, with
//! one look at its headers, and is cut at the end of its way, if at all. Nothing waits in here: the switch decides whether to look
//! again or to sleep.
//!
//! # The structure
//!
//! - [`packet`]: on a network interface, through a packet socket, and an XDP socket for short frames that go out; for hosts that count on offloads, and for all others. [`xdp`]: through an
//!   XDP socket; faster, for hosts that leave nothing to be done. [`tap`]: a network interface itself. [`memory`]: inside the process.
//! - [`Receiver`] and [`Sender`]: the halves of a port, for different threads. [`packet::open_lanes`]: an interface as several ports, for as many threads.
//! - [`vxlan`]: what comes and goes in tunnels. It has many ports, and frames come with what is known of their tunnel.
//! - [`offload`]: what is left to be done, and [`offload::finish`], which does it.
//! - `interface`, `kernel`, `bpf`: what is asked of the system. Unsafe code is in the latter two only, and where memory is shared with the kernel.
//!
//! # Example
//!
//! ```
//! use fulmar_port::{Offload, memory};
//!
//! let (mut here, mut there) = memory::pair()?;
//! here.send(&[7; 60], Offload::NONE);
//! here.flush();
//! let mut received = Vec::new();
//! there.receive(64, |frame| received.push(frame.bytes().to_vec()))?;
//! assert_eq!(received, [[7; 60]]);
//! # Ok::<(), fulmar_port::Error>(())
//! ```
//!
//! # What is guaranteed
//!
//! Frames come in at a port in the order in which they arrived (if an interface is several ports, those of a flow are at one of them), and go out in the order in which they were sent, as far as they come and go at all:
//! what has no room is dropped and counted, and what waits for room blocks nobody. A frame goes on as it came, with its tags. An interface that is down
//! or gone is an [`Error`], and no frame makes it panic.
//!
//! Not guaranteed: that a frame's checksums are right, if no kernel has left them open. That an open checksum or a frame to be cut is
//! still understood inside a tunnel of somebody else: [`vxlan`] finishes what it sends. Segments other than of TCP and
//! UDP (of SCTP, of tunnels) are the kernel's to cut: its packet sockets do not give them away. Before Linux 6.2 they neither give nor take those
//! of UDP.

mod bpf;
mod error;
mod frame;
mod interface;
mod kernel;
mod link;
pub mod memory;
pub mod offload;
pub mod packet;
mod port;
pub mod tap;
mod trail;
pub mod vxlan;
pub mod xdp;

pub use error::Error;
pub use frame::Frame;
pub use link::{Counters, Link, Traffic};
pub use offload::Offload;
pub use port::{LinkWatch, Port, Receiver, Sender};
pub use trail::Trail;

/// Bytes of the longest frame: what IP can carry, after an Ethernet header with two tags.
pub const LONGEST_FRAME: usize = 65_535 + fulmar_packet::ethernet::HEADER + 2 * fulmar_packet::ethernet::TAG;
