//! Virtual switches as they are run: with ports of the kernel, threads for packets, sessions of controllers, and a database that says
//! what there is to be.
//!
//! *Known as:* the switch daemon (`ovs-vswitchd`): datapath threads (PMD), controllers, QoS, mirrors, tunnels.
//!
//! # The problem
//!
//! What decides about packets ([`fulmar_vswitch`]) neither sends nor waits. Somebody has to take frames from ports and give them to
//! others as fast as they come, answer controllers meanwhile, follow a configuration that changes at any time, and say what goes on.
//!
//! # The idea
//!
//! A switch has threads for packets, each with ports of its own, or flows of its own at ports that are opened for all of them, which run each packet to its end: what they remember is their own, and
//! they meet only where frames go out. What others want of them are orders in mailboxes, that they look at between two batches. Sessions call the switch themselves, from their
//! own threads; a change has taken place when they have been answered. One more thread follows the database, and writes into it
//! how things are: what `ovs-vsctl` asks for and waits for.
//!
//! # The structure
//!
//! - [`Bridge`]: a switch, the threads of its `datapath` with `tunnels`, and its sessions with flow `monitors`.
//! - [`Daemon`]: the database and all bridges that it asks for (`configuration`, `switches`, `interface`, `options`), `appctl` and `metrics` about them.
//! - [`Config`]: the file that `fulmar switch` is given; [`ask`]: what `fulmar switch` asks one that runs.
//!
//! # Example
//!
//! ```
//! use fulmar_bridge::Bridge;
//! use fulmar_port::{Offload, memory};
//! use fulmar_vswitch::{PortInfo, Settings, Switch};
//! use std::num::NonZeroUsize;
//!
//! let bridge = Bridge::start("br0", Switch::new(1, "br0", Settings::default()), NonZeroUsize::MIN, |_| ())?;
//! let [(mut a, one), (mut b, two)] = [memory::pair()?, memory::pair()?];
//! bridge.attach(1, PortInfo::new("one", [2, 0, 0, 0, 0, 1]), one);
//! bridge.attach(2, PortInfo::new("two", [2, 0, 0, 0, 0, 2]), two);
//! bridge.work_alone();
//! a.send(&[0xff; 60], Offload::NONE);
//! a.flush();
//! while b.receive(1, |frame| assert_eq!(frame.bytes(), [0xff; 60]))? == 0 {}
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! A packet that comes in after a controller has the answer to its barrier is treated as was asked before that, whatever is
//! remembered. An interface that is not there, or goes away, is an error of that interface; it joins when it is there. What controllers
//! and tools say is answered with an error or done. What is dropped is counted.
//!
//! Frames that came in at one port and go out at another keep their order; at a port of several [lanes](fulmar_port::packet::open_lanes), those of a flow do.
//!
//! Not guaranteed: the order of frames that came in at different ports. OpenFlow 1.0 and 1.3 are spoken, and no other version.

mod appctl;
mod at_once;
mod bridge;
mod clock;
mod configuration;
mod daemon;
mod datapath;
mod event;
mod interface;
mod metrics;
mod monitors;
mod options;
#[cfg(test)]
mod page;
mod spanning;
mod switches;
mod tunnels;

pub use appctl::ask;
pub use bridge::{Bridge, FailMode, Remembered};
pub use daemon::{BridgeConfig, Config, Daemon, StartError};
pub use event::{Event, EventKind};
pub use spanning::{SpanningPort, SpanningStatus, SpanningTree};
