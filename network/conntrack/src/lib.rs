//! Which connection a packet is of, in what state that is, and the translation of its addresses.
//!
//! *Known as:* connection tracking, a stateful firewall, NAT.
//!
//! # The problem
//!
//! A firewall lets the answers in and the questions not; a gateway lets many hosts use one address. Both need to know which packets
//! belong together, and flow tables have no memory. A switch has an action for it, `ct` (Pfaff and others 2015, section 8.1), which
//! says of a packet what is known of its connection, so that later tables can decide by that.
//!
//! # The idea
//!
//! A connection has two *tuples*: zone, protocol, addresses and ports as its first packet has them, and as replies have them. They
//! mirror each other, unless addresses are translated. All tuples are in one hash table, and none is there twice: so a packet is of
//! one connection and goes in one direction; and a translation that is chosen so that its tuple of replies is free can always be
//! undone. A packet that comes with one tuple leaves as the mirror image of the other: that is all that translating is, in both
//! directions and, read backwards, for what errors of ICMP say of other packets.
//!
//! # The structure
//!
//! - [`Tracker`], over `table`, the [`Connection`]s by their [`Tuple`]s, and `agenda`, when they time out.
//! - [`Request`], what is asked; [`Tracked`], what is known; [`state`], bits.
//! - `packet`, what of a frame counts; `embedded`, of an error's; `tcp`, which segments are in order.
//! - `translation`, to what; `rewriting`, in the frame.
//!
//! # Example
//!
//! ```
//! use fulmar_conntrack::{Limits, Request, Tracker, state};
//! use fulmar_packet::{Field, FlowKey, build, ethernet, extract, ip};
//! use std::time::Duration;
//!
//! let mut key = FlowKey::default();
//! key.set(Field::ETH_TYPE, ethernet::IPV4.into());
//! key.set(Field::IP_PROTOCOL, ip::UDP.into());
//! key.set(Field::L4_SOURCE, 1234);
//! key.set(Field::L4_DESTINATION, 53);
//! let mut frame = build(&key, b"question");
//! let layers = extract(&frame, &mut key);
//!
//! let tracker = Tracker::new(Limits::default(), 1);
//! let commit = Request { zone: 7, commit: true, ..Request::default() };
//! let tracked = tracker.track(Duration::ZERO, &key, &mut frame, layers, &commit);
//! assert_eq!(tracked.state, state::TRACKED | state::NEW);
//! let line = "udp,orig=(src=0.0.0.0,dst=0.0.0.0,sport=1234,dport=53),\
//!             reply=(src=0.0.0.0,dst=0.0.0.0,sport=53,dport=1234),zone=7";
//! assert_eq!(tracker.connections()[0].to_string(), line);
//! ```
//!
//! # What is guaranteed
//!
//! Of two connections in a zone, no packets are confused, translated or not: one that would have to be is not committed. What is
//! translated, and answered, comes back to whom it came from, with the addresses that were meant; checksums stay as right, or wrong,
//! as they were. No frame makes it panic, and no number of them makes it larger than its [`Limits`]. A packet takes constant time, but
//! for the first of a translated connection, which may have to try 1,024 ports, and the few for which tables grow: at two million
//! connections that takes a sixth of a second.
//!
//! What follows is as Open vSwitch does it in user space, and where not it is said:
//!
//! - TCP, UDP, SCTP (as datagrams) and queries of ICMP and ICMPv6 have connections; all else is invalid, neighbour discovery and
//!   later fragments, too, as fragments are not put together.
//! - A packet stays [`state::NEW`] until there is an answer, as in Linux; Open vSwitch calls the second one of TCP established.
//! - A connection of TCP that is not seen from its beginning is taken up in the middle, by anything but a `SYN` with an `ACK`; its
//!   windows are taken to be scaled as far as can be. A `SYN` that comes again before it is answered begins it anew.
//! - A connection has one translation, of its source or its destination, from when it is committed; for both it takes two zones.
//!   Who asks for another later gets that one. The identifiers of queries of ICMP are translated as source ports are.
//! - If all addresses and ports that are tried are taken, or the range is of the other IP, the packet is invalid, nothing is committed
//!   and [`Counts`] tells; so it is at a limit.
//! - An error of ICMP that is not sent to who has sent what it is about is invalid; a translated source of errors is that which the
//!   connection has.
//!
//! Not guaranteed: that payloads agree with what is translated. There are no gateways for FTP or TFTP. A full zone may
//! count connections that have timed out until [`Tracker::forget`] has caught up. Checksums are not verified, as
//! they are not there yet where a card is to fill them in. Of SCTP in an error the checksum is left as it was.

mod agenda;
mod connection;
mod direction;
mod embedded;
mod packet;
mod request;
mod rewriting;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
mod tracker;
mod translation;
mod tuple;

pub use connection::Connection;
pub use request::{Request, Rewritten, Side, Tracked, Translation, state};
pub use tracker::{Counts, Limits, Tracker};
pub use tuple::{Endpoint, Tuple};
