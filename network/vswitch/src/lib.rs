//! A virtual switch: what is done with packets, decided by flow tables and remembered for all packets like them.
//!
//! *Known as:* the OpenFlow pipeline and datapath: flow tables, table miss, upcall, microflow and megaflow caches, revalidation,
//! recirculation.
//!
//! # The problem
//!
//! A controller says what is to be done with packets by flows in tables: any bits of any headers, in an order of importance, one
//! table after the other. To follow that for each packet takes a microsecond; a packet can come every hundred nanoseconds. But flows
//! change at any time, and who changes them wants to know from when on that counts.
//!
//! # The idea
//!
//! That of Open vSwitch (Pfaff and others, NSDI 2015; section numbers without another name are that paper's). A packet's way through
//! the tables is taken once, and what it led to is remembered for all packets that agree in the bits that this depended on: a
//! *megaflow*. A *microflow* is a hint which megaflow packets of one connection meet.
//!
//! Unlike there, a decision is known to be made of certain tables: each change makes a new generation of them, and a megaflow of
//! an earlier one is decided anew when a packet meets it. So a change has taken place for the very next packet, and no sweep
//! must come by first. And packets are counted for the flows that they met at the end of each batch, not once a second.
//!
//! # The paper's names
//!
//! | in the paper | here |
//! | --- | --- |
//! | datapath (3.1) | a [`Forwarder`] with its `cache`, one for each thread |
//! | `ovs-vswitchd`, upcall, flow setup (3.1) | `translate`, called by the same thread |
//! | packet classifier, tuple space search (3.2) | [`fulmar_classifier`], which cites its section 5 |
//! | multiple tables, resubmit, registers (3.3) | `table`, `pipeline`, `translate` |
//! | megaflow cache (4.2) | `cache`, [`Megaflow`] |
//! | microflow cache (4.2) | `cache`: a hint for each hash of a packet's key |
//! | datapath actions | [`Step`]s of a [`Decision`] |
//! | tags; revalidation (6) | generations of a `pipeline`: a packet that meets a megaflow of an earlier one has it decided anew |
//! | eviction; polling of statistics (6) | [`Forwarder::sweep`], [`Forwarder::credit`] |
//!
//! # The structure
//!
//! - [`Switch`]: flow `table`s, `group`s, `meter`s, [ports](PortInfo) with [queues](Shaping) and [tunnels](Tunnel), [mirrors](Mirror), and [stations](Station) in a `pipeline`; requests of controllers
//!   change it (`control`, `checks`) or are `answers`ed.
//! - `translate`: from a packet's key to a [`Decision`], which is [`Step`]s, and the bits that it depends on.
//! - [`Forwarder`]: one thread's way for packets, over its `cache`; steps are carried out (`execute`) on a [frame](fulmar_port::Frame), and what comes of
//!   them goes to an [`Output`].
//!
//! Nothing here sends, receives, waits or knows the time: that is [told](fulmar_node::Time).
//!
//! # Example
//!
//! ```
//! use fulmar_node::Time;
//! use fulmar_packet::{Field, FlowKey};
//! use fulmar_vswitch::{PortInfo, Settings, Switch};
//!
//! let switch = Switch::new(1, "example", Settings::default());
//! for number in 1..=2 {
//!     switch.put_port(number, PortInfo::new(&format!("p{number}"), [2, 0, 0, 0, 0, 1]), Time::ZERO);
//! }
//! switch.add_flow("in_port=1 actions=output:2".parse()?, Time::ZERO)?;
//! let mut packet = FlowKey::default();
//! packet.set(Field::IN_PORT, 1);
//! assert!(switch.trace(&packet, Time::ZERO).ends_with("Datapath actions: 2\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! A packet that comes in after [`Switch::request`] or [`Switch::commit`] has returned is treated as the tables are then; requests of one
//! commit take place for all packets at once. What is remembered is never anything else than what would be decided. Counts and time-outs
//! of flows are those of their packets, as soon as [`Forwarder::credit`] has been called. No packet makes it panic, or grow without bound.
//!
//! Not guaranteed: that packets which came at two ports leave in the order in which they came. Packets that a removed flow met
//! before the last credit are not in its last count. Queues drop what is too much, and keep nothing for
//! later. There is no sampling, and no state of a packet that is paused at a controller: flows that ask for
//! those are refused.

mod answers;
mod cache;
mod checks;
mod control;
mod execute;
mod flow;
mod flows;
mod forwarder;
mod group;
mod mac;
mod meter;
mod mirror;
mod monitor;
mod pipeline;
mod police;
mod port;
mod queue;
mod rate;
mod step;
mod switch;
mod table;
mod traffic;
mod translate;
mod tunnel;

pub use cache::{Cached, Caching, Hits, Megaflow};
pub use control::{Done, Event};
pub use execute::Output;
pub use forwarder::Forwarder;
pub use mac::{Flapping, Learning, Station};
pub use mirror::{Mirror, MirrorOutput};
pub use monitor::FlowChange;
pub use police::{Policer, Policing};
pub use port::{PortCounters, PortInfo, Vlans};
pub use queue::Shaping;
pub use rate::Rate;
pub use step::{Decision, Enqueued, Frozen, MeterStep, Notice, Setting, Step, Steps};
pub use switch::{Settings, Switch};
pub use traffic::Traffic;
pub use tunnel::{Encapsulation, Tunnel, tunnelled};

#[cfg(test)]
mod tests;
