//! The rapid spanning tree protocol (RSTP, IEEE 802.1D-2004, clause 17): of links that form loops, those that do not are used.
//!
//! *Known as:* spanning tree, RSTP, STP (802.1D), 802.1w.
//!
//! # The problem
//!
//! A frame that is for all goes round and round where links form a loop, and each round makes more of it. But who wants a network to outlive a
//! link lays two.
//!
//! # The idea
//!
//! Bridges agree on one of them, the *root*, and each on its best way there. A port is *root port*, *designated* (others go to the root by it), or
//! it *discards*. When a way breaks, another that was discarded is used: at once, as its bridge knows that it leads to the root. A designated port
//! forwards when the bridge behind it has *agreed*, and that agrees only after it has made all its own designated ports wait: so an agreement goes
//! from the root outwards, as a wave, and no loop is open behind it.
//!
//! # The structure
//!
//! - [`Tree`], a bridge's share in the tree: a value without clock and socket, that is told of frames, links and seconds and answers with
//!   [`Effect`]s. `tree` has the machines of clause 17.23 to 17.31, under the standard's names; `port` the variables; `vector` what is compared;
//!   `bpdu` the messages.
//!
//! # Example
//!
//! ```
//! use fulmar_rstp::{BridgeId, Effect, Role, Times, Tree};
//!
//! let mut trees = [1, 2].map(|bridge| Tree::new(BridgeId::new(0x8000, [2, 0, 0, 0, 0, bridge]), Times::default()));
//! for tree in &mut trees {
//!     // Two links of 10 Gbit/s between the two.
//!     [1, 2].map(|port| tree.put_port(port, 0x80, [2, 0, 0, 0, 1, 0], 2_000));
//!     [1, 2].map(|port| tree.set_link(port, true));
//! }
//! for _second in 0..4 {
//!     for (here, there) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
//!         for effect in trees[here].take_effects() {
//!             if let Effect::Send(port, frame) = effect {
//!                 trees[there].receive(port, &frame);
//!             }
//!         }
//!     }
//!     trees.iter_mut().for_each(Tree::tick);
//! }
//! let status = |bridge: usize, port| trees[bridge].status(port).map(|port| (port.role, port.state.forwarding));
//! // The root sends by both; what comes by the second goes no further.
//! assert_eq!([status(0, 1), status(0, 2)], [Some((Role::Designated, true)); 2]);
//! assert_eq!([status(1, 1), status(1, 2)], [Some((Role::Root, true)), Some((Role::Alternate, false))]);
//! ```
//!
//! # What is guaranteed
//!
//! When links stop to change, those that forward are a tree which reaches all bridges, some seconds later; with STP bridges among them, within
//! a minute. No frame makes it panic.
//!
//! Not guaranteed: anything against who sends lies (such ports are not given to the tree), or on links that lose three messages in a row.

mod bpdu;
mod port;
#[cfg(test)]
mod tests;
mod tree;
mod vector;

pub use bpdu::GROUP;
pub use port::{Role, State};
pub use tree::{Effect, PortStatus, Tree};
pub use vector::{BridgeId, PortId, Times};
