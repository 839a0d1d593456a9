//! Frames and their headers, and the key by which a switch tells flows apart.
//!
//! *Known as:* a packet parser, extraction of flow keys (`miniflow_extract`), header fields.
//!
//! # The problem
//!
//! A switch decides by what is in the headers of a packet, of any protocol, in any combination; it does so millions of times a
//! second; and what it cannot parse it must neither trust nor choke on.
//!
//! # The idea
//!
//! A frame is read once, without being copied, into a [`FlowKey`]: all that can be decided by, as numbers at fixed places, layer by
//! layer. Everything after that is about keys. Which bits of a key matter is a [`FlowMask`], and a flow's condition a [`Match`].
//! So a table does not know protocols, and a new field is a new place in the key.
//!
//! # The structure
//!
//! - [`Field`]: the places, and their [`Stage`]s. [`FlowKey`], [`FlowMask`], [`Match`]: rows of them.
//! - [`extract`]: from a frame to a key, over [`ethernet`] and [`ip`].
//! - [`rewrite`]: a field changed in the frame. [`build`]: from a key to a frame.
//! - [`checksum`]: the Internet checksum, whole and by differences. [`vxlan`]: frames in datagrams.
//! - [`fetch`], [`fetch_to_write`]: for whoever looks at many packets: memory that is needed soon.
//!
//! # Example
//!
//! ```
//! use fulmar_packet::{Field, FlowKey, Match, build, ethernet, extract, ip};
//!
//! let mut key = FlowKey::default();
//! key.set(Field::ETH_TYPE, ethernet::IPV4.into());
//! key.set(Field::IPV4_DESTINATION, 0x0a00_0001);
//! key.set(Field::IP_PROTOCOL, ip::UDP.into());
//! key.set(Field::L4_DESTINATION, 53);
//! let frame = build(&key, b"question");
//!
//! let mut found = FlowKey::default();
//! extract(&frame, &mut found);
//! assert!(Match::ANY.with_prefix(Field::IPV4_DESTINATION, 0x0a00_0000, 8).matches(&found));
//! ```
//!
//! # What is guaranteed
//!
//! No frame makes it panic. What is in a key is in the frame: of a header that is cut off, or whose lengths are impossible, and of
//! all behind it, nothing is taken. Checksums stay as right, or wrong, as they were.
//!
//! Not guaranteed: that a packet is what it says. Checksums are not verified, and fragments are not put together.

mod build;
pub mod checksum;
pub mod ethernet;
mod extract;
mod fetch;
mod field;
pub mod ip;
mod key;
mod rewrite;
pub mod vxlan;

pub use build::build;
pub use extract::{Layers, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, extract};
pub use fetch::{fetch, fetch_to_write};
pub use field::{Field, Stage, WORDS};
pub use ip::{FRAGMENT, LATER};
pub use key::{FlowKey, FlowMask, Match, ones, prefix};
pub use rewrite::rewrite;

#[cfg(test)]
mod tests;
