//! A deterministic simulator of processes: a whole cluster, its network, its disks and its users in one thread of
//! events, which a number decides.
//!
//! *Known as:* deterministic simulation testing (DST), a discrete-event simulator, fault injection.
//!
//! # The problem
//!
//! What breaks a protocol is rare: a message that arrives a second late, after a restart, while a disk is slow and two
//! of three nodes believe the third to be dead. Waiting for it takes years, and when it comes it cannot be repeated.
//!
//! # The idea
//!
//! A [`Process`](fulmar_node::Process) does nothing but answer what it is told, so the simulator can be all that tells
//! it something. Time is a number that leaps from one event to the next; latencies, losses and crashes are drawn from
//! one generator. A second of a cluster takes milliseconds, what is rare can be made frequent, and whatever happens for
//! a seed happens again for that seed, event by event.
//!
//! # The structure
//!
//! - [`Sim`]: nodes with processes of one type, and the loop that lets one thing happen after another. Its events lie in
//!   a hierarchical timing wheel (`wheel.rs`), those of one time in the order in which they came to be.
//! - [`Network`] decides what becomes of a message, by the [`Link`] from its sender to its receiver, by [`Weather`] that
//!   befalls all links, and by cuts, in one direction or both. [`Delay`] says how long things take.
//! - A node has a clock, which may leap and drift; a disk, which makes records durable some time after they are emitted,
//!   several together; and service times, for which each message that it receives or sends keeps it busy. It can crash, and lose the records that
//!   were not durable or some of them, restart, pause and resume. All of that are methods of [`Sim`].
//! - [`Faults`] is a plan of all that with random weights. A run has two phases: [`Sim::inject`], then [`Sim::heal`],
//!   after which [`Sim::run_until`] must see progress.
//! - Users are either told events in the loop ([`Sim::run`], [`Sim::next_event`]), or they are programs that block
//!   ([`Sim::host`]): ordinary code, an SQL engine for example, on a thread of its own, which runs only while the
//!   simulator waits for it. A [`Port`] is its way to its node's process.
//! - [`seeds`] runs a test with many seeds, some of them twice, and says how to replay the one that fails.
//!   [`Sim::invariant`] looks at all processes after every step.
//!
//! # Example
//!
//! ```
//! use fulmar_node::{NodeId, Outbox, Process, Time};
//! use fulmar_sim::{Sim, seeds};
//! use std::time::Duration;
//!
//! /// Node 0 counts what the others ask it to, and tells them how far it is.
//! struct Counter(u64);
//!
//! impl Process for Counter {
//!     type Message = u64;
//!     type Timer = ();
//!     type Request = ();
//!     type Event = u64;
//!     type Record = ();
//!     fn request(&mut self, _now: Time, (): (), out: &mut Outbox<Self>) {
//!         out.send(NodeId(0), 1);
//!     }
//!     fn receive(&mut self, _now: Time, from: NodeId, n: u64, out: &mut Outbox<Self>) {
//!         self.0 += n;
//!         if from == NodeId(0) { out.event(n) } else { out.send(from, self.0) }
//!     }
//! }
//!
//! seeds("counts_everything", 0..20, |seed| {
//!     let mut sim = Sim::new(seed, |_, _: &[()]| Counter(0));
//!     (0..3).for_each(|id| sim.add(NodeId(id)));
//!     for client in [NodeId(1), NodeId(2)] {
//!         sim.host(client, |port| {
//!             let first = port.call(()).expect("nothing crashes here");
//!             port.sleep(Duration::from_millis(1)).expect("the simulation goes on");
//!             assert!(port.call(()).is_ok_and(|later| later > first));
//!         });
//!     }
//!     let is_over = |sim: &Sim<Counter>| sim.programs_running() == 0;
//!     if !sim.run_until(Duration::from_secs(1), |_, _, _| {}, is_over) {
//!         return Err("a client waits for ever".to_owned());
//!     }
//!     let counted = sim.process(NodeId(0)).map(|counter| counter.0);
//!     if counted == Some(4) { Ok(()) } else { Err(format!("{counted:?} is not 4")) }
//! });
//! ```
//!
//! If that failed it would say `FULMAR_SEED=17 cargo test -p … counts_everything -- --nocapture`, and that would print a
//! line for everything that happens:
//!
//! ```text
//! 0.000000000 n1    request ()
//! 0.000000000 n1    send    to n0 1
//! 0.000074551 n0    receive n1 1
//! ```
//!
//! `FULMAR_SEEDS=20000` runs that many, from the first of the range or from `FULMAR_FIRST_SEED`.
//!
//! # What is guaranteed
//!
//! The same seed gives the same trace, byte for byte, on every machine, as long as processes and programs depend on
//! nothing but what they are told: no clock, no thread of their own, no map in random order, no address. Latencies are
//! drawn with integers alone. A seed in sixteen runs twice, and a difference is a failure that shows the first line
//! that differs. Traces change when this crate does: a seed that found a bug is worth keeping, but not for ever.
//!
//! Timers are never early by their node's clock. A message is never changed, and arrives at most twice. A multicast
//! reaches its sender, too, if that is a member. A node that was told that a connection has ended receives nothing of it
//! after that. Messages of a node to itself take no time and are not lost. Records survive in order: what a crash takes is a suffix of those that were not durable.
//!
//! Messages have no length but where [`Sim::set_rate`] says so. Not simulated: processors (a step takes no time, or the service time), torn or rotten records, and
//! operating systems. A process that never lets time pass, because it sends to itself for ever, never ends.
//!
//! # How fast it is
//!
//! `cargo run --release -p fulmar-sim --example throughput`, on a busy machine of two virtual cores: of messages that
//! each reset a timer and send another, 7 million a second with 10 or 1,000 nodes, 3 million with 10,000 and 1 million
//! with 100,000, where the nodes do not fit into caches. A call of a hosted program takes some 4 µs, which is two
//! hand-overs between threads.

mod baton;
mod clock;
mod control;
mod counts;
mod delay;
mod faults;
mod network;
mod node;
mod program;
mod seeds;
mod sim;
mod trace;
mod wheel;

pub use counts::Counts;
pub use delay::Delay;
pub use faults::Faults;
pub use network::{CutId, Link, Network, Weather};
pub use node::Processes;
pub use program::{Port, PortError};
pub use seeds::{Failure, Seed, check, seeds};
pub use sim::{Sim, Simulated};
pub use trace::Detail;
