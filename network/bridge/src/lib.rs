//! Virtual switches as they are run: with ports of the kernel, a thread for packets, sessions of controllers, and a database that says
//! what there is to be.
//!
//! # The problem
//!
//! What decides about packets ([`fulmar_vswitch`]) neither sends nor waits. Somebody has to take frames from ports and give them to
//! others as fast as they come, answer controllers meanwhile, follow a configuration that changes at any time, and say what goes on.
//!
//! # The idea
//!
//! Each switch has one thread for packets, which runs each to its end: it shares nothing with others that it would have to wait for.
//! What others want of it are orders in a mailbox, that it looks at between two batches. Sessions call the switch themselves, from their
//! own threads; a change has taken place when they have been answered. One more thread follows the database, and writes into it
//! how things are: what `ovs-vsctl` asks for and waits for.
//!
//! # The structure
//!
//! - [`Bridge`]: a switch, its `datapath` thread with `tunnels`, and its sessions.
//! - [`Daemon`]: the database and all bridges that it asks for (`configuration`, `switches`, `interface`, `options`), `appctl` and `metrics` about them.
//! - [`Config`]: the file that `fulmar switch` is given; [`ask`]: what `fulmar switch` asks one that runs.
//!
//! # Example
//!
//! ```
//! use fulmar_bridge::Bridge;
//! use fulmar_port::{Offload, memory};
//! use fulmar_vswitch::{PortInfo, Settings, Switch};
//!
//! let bridge = Bridge::start("br0", Switch::new(1, "br0", Settings::default()), |_| ())?;
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
//! Not guaranteed: that a switch is as fast as the machine: it has one thread for packets. OpenFlow 1.0 and 1.3 are spoken, and no
//! other version.

mod appctl;
mod bridge;
mod clock;
mod configuration;
mod daemon;
mod datapath;
mod interface;
mod metrics;
mod options;
mod switches;
mod tunnels;

pub use appctl::ask;
pub use bridge::{Bridge, FailMode};
pub use daemon::{BridgeConfig, Config, Daemon, StartError};
