//! Small networks on one machine, for tests and for trying things out.
//!
//! *Known as:* a network emulator (Mininet, netem), a test bed.
//!
//! # The problem
//!
//! Whether a protocol survives a network that loses, delays and reorders is seen on such a network. Real ones are not at hand, differ each
//! time, and are shared. A kernel can be several hosts; but what makes links bad is often left out of it, and whatever fails half-way
//! leaves namespaces and interfaces behind that nobody remembers.
//!
//! # The idea
//!
//! One process holds everything: it alone has the hosts' namespaces open, their interfaces are TAP devices that it reads, and
//! switches and links are in its memory. So the kernel takes all of it away when that process ends, however it ends. What the kernel
//! does not take, commands that still run and files, a guard removes: a process that sleeps until its input is closed.
//!
//! A link is a value in virtual time. It is told when frames come and says when they go; it draws chances from a seed. What it does to
//! frames is tested without a clock, and the thread that drives it has nothing left to decide.
//!
//! # The structure
//!
//! - [`Topology`], what is to be; [`Quality`], how good a link is; [`Direction`], a link in one direction.
//! - `namespace`, a host; `network`, all that runs, over `fulmar_bridge`'s switches; `driver`, the thread that moves frames along links.
//! - [`run`], the process of a network; `state`, its name and directory; `guard`, who cleans up; `control`, what is asked of it.
//! - [`Net`] and [`command`], the subcommands; `table`, what `show` prints.
//!
//! # Example
//!
//! ```
//! use fulmar_net::{Direction, Quality};
//! use fulmar_node::Time;
//! use fulmar_port::Offload;
//! use std::time::Duration;
//!
//! let delay = Duration::from_millis(2);
//! let mut link = Direction::new(Quality { delay, ..Quality::default() }, 1);
//! link.send(Time::ZERO, &[7; 60], Offload::NONE);
//! let due = link.next_due().expect("it is under way");
//! assert_eq!(due, Time::ZERO + delay);
//! assert_eq!(link.take_due(due).expect("it has arrived").0, [7; 60]);
//! ```
//!
//! # What is guaranteed
//!
//! When a network's process ends, be it killed, no host, interface, switch or link of it is left; commands on its hosts are ended, and its
//! directory is removed, unless the guard is killed at the same time. The next network of that name removes what is left then. Nothing
//! has a name in the system, so networks do not meet.
//!
//! A link keeps its rate to the nanosecond, in virtual time; frames keep their order but for `reorder`; the same seed and frames give
//! the same course.
//!
//! Not guaranteed: that real frames are on time. They go through one thread, which is as late as the machine lets it be, and take some
//! microseconds on a link without delay. Hosts share all but the network: files, processes, names.

mod command;
mod control;
mod driver;
mod error;
mod guard;
mod link;
mod namespace;
mod network;
mod quality;
mod run;
mod state;
mod table;
mod tell;
mod topology;

pub use command::{Exec, Link as LinkCommand, Net, Show, Stand, Up, Which, command};
pub use error::Error;
pub use link::{Counts, Direction};
pub use quality::Quality;
pub use run::run;
pub use topology::{Address, Host, Link, Switch, Topology};
