//! Finding every machine of a network whose machines each know a few.
//!
//! *Known as:* resource discovery, bootstrapping, gossip, cluster membership (SWIM).
//!
//! # The problem
//!
//! Machines start with the addresses of a few others each, and each must come to know all, in few rounds and with few messages
//! (Haeupler and Malkhi 2015). Who tells all it knows to all it knows needs log D rounds, where D is the diameter, and n² messages; who
//! tells one at a time needs log n rounds or more.
//!
//! # The idea
//!
//! Machines gather in clusters that act as one. Clusters of s machines can afford s messages each: enough to find, among the clusters
//! around, one of the few that are centres, and to join it. So they grow from s to s² or so, and a few times of that are enough. Who
//! has no centre in sight asks further, twice as far each time, which takes log D rounds.
//!
//! # The structure
//!
//! - [`model`]: direct addressing, pushes and pulls in rounds; [`network`] runs it and counts; [`Ledger`] knows who was told what;
//!   [`process`] runs the same machines on messages that take time.
//! - [`sublogarithmic`]: the algorithm of the paper, and what is other there than printed. [`baselines`]: what was there before.
//! - [`Topology`], of a [`Shape`]; [`Setting`], one with chance; [`Algorithm`]s by name; [`explain`], one run as text.
//!
//! # In earnest
//!
//! [`live`] is the same idea, clusters with centres that merge, without rounds and with failures: on datagrams, with nodes that
//! crash, restart, join and leave, and with a view that is called stable in the end, and how that is known.
//!
//! # Example
//!
//! ```
//! use fulmar_discovery::{Algorithm, Setting, Shape};
//!
//! # fn main() -> Result<(), fulmar_discovery::Error> {
//! let setting = Setting::new(Shape::Tree, 256, 1);
//! let ours = setting.run(Algorithm::Sublogarithmic)?;
//! let flooding = setting.run(Algorithm::Flooding)?;
//! assert!(flooding.rounds < ours.rounds && ours.messages * 10 < flooding.messages);
//! # Ok(())
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! In a strongly connected network every machine comes to know all: chance, and a depth that was guessed wrong, change what that
//! costs only. A machine knows how many machines there are, and calls only whom it was told of: up to [`network::CHECKED`] machines each
//! call is checked. The same seed gives the same run.
//!
//! Not guaranteed: anything if machines fail, messages are lost, or the number of machines is another. Messages are bounded by O(n)
//! as measured, not as proven: clusters tell their members whom they have joined, which is one message a machine in each
//! iteration, and there are log log n of them.

mod algorithm;
pub mod baselines;
mod bits;
mod cluster;
mod explain;
mod ledger;
pub mod live;
mod marks;
pub mod model;
pub mod network;
pub mod process;
pub mod sublogarithmic;
mod topology;

pub use algorithm::{Algorithm, Setting};
pub use bits::Bits;
pub use cluster::Cluster;
pub use explain::explain;
pub use ledger::Ledger;
pub use marks::Marks;
pub use model::{Call, Content, Machine, Round};
pub use network::{Counts, Error};
pub use topology::{Shape, Topology};
