//! Agreement in synchronous rounds, between machines whose operators have pinned each other's keys.
//!
//! *Known as:* a synchronous-round driver (round synchronizer) for Byzantine agreement; authenticated channels: mutual TLS with raw public
//! keys.
//!
//! # The problem
//!
//! A protocol in synchronous rounds assumes that all begin together, that what a correct process sends arrives in the round in which it
//! was sent, and that its sender is known. Machines have none of that: their clocks differ, some are started late, connections break,
//! and anybody can call.
//!
//! # The idea
//!
//! *Who:* a member is an Ed25519 key, which the others have written down. Connections are TLS 1.3 with these keys alone (RFC 7250): there
//! are no certificates, no authority, no names, and nothing expires.
//!
//! *When:* a member that is connected to all says that it is ready. t + 1 that are ready make everybody ready, and n − t begin the first
//! round (the reliable broadcast of Srikanth and Toueg, 1987). So all correct members begin within two message delays of each other, whatever
//! t others say, and no clock needs to be right. From then on each counts its own rounds by its own clock.
//!
//! *What is faulty:* a member of which nothing, nothing readable or something twice has come in a round. Nothing more is taken of it.
//! If more than t are faulty, then either too many lie, or it is this member that is slow or cut off; in both cases what its protocol
//! would decide means nothing, and it says so instead.
//!
//! *What is left:* each member signs what it has decided. t + 1 signatures prove it to whoever knows the keys and believes that at most
//! t lie, since one of them is of a correct member.
//!
//! # The structure
//!
//! - [`Council`], its [`Member`]s, and what is signed; [`Identity`], [`PublicKey`], [`Signature`], [`Digest`].
//! - [`Session`], a value without clocks and sockets: when rounds begin (`gathering`) and end, and who is faulty (`peer`). It runs any
//!   [`Synchronous`](fulmar_byzantine::Synchronous) protocol, and is itself a [`Process`](fulmar_node::Process).
//! - [`Meeting`], a session on sockets; `caller` and `door`, connections out and in; `tls`, `greeting` and [`Frame`], what is
//!   said there; `liar`, members that lie, for tests.
//!
//! # The papers' names
//!
//! | in Srikanth and Toueg (1987), or in Abraham and Dolev (2015) | here |
//! | --- | --- |
//! | n, t; a correct process | [`Council::members`], [`Council::tolerates`]; a [`Member`] that is not [`Faulty`](Fault) |
//! | broadcast, by *init* and *echo* | [`Frame::Ready`], sent for either reason (`session::gathering`) |
//! | accept: n − t have said so | the first round begins |
//! | round; what is sent in it | [`Frame::Round`] |
//! | output; halting | [`Frame::Halted`], signed: a [`Verdict`] |
//! | a message that is missing | [`Fault`], for good: nothing more is taken of its sender |
//!
//! # Example
//!
//! ```
//! use fulmar_council::{Council, Digest, Identity, Member};
//! use std::time::Duration;
//!
//! let identities = [1, 2, 3, 4].map(|seed| Identity::from_seed(&[seed; 32]));
//! let member = |(port, identity): (u16, &Identity)| Member {
//!     address: format!("10.0.0.1:{port}"),
//!     key: identity.public(),
//! };
//! let members = (7600..).zip(&identities).map(member).collect();
//! let council = Council::new("eggs".into(), members, 1, Duration::from_secs(2))?;
//! let verdict = council.verdict(Some(&Digest::of(b"a configuration")));
//! let signature = identities[2].sign(&verdict);
//! assert!(council.members()[2].key.has_signed(&verdict, &signature));
//! # Ok::<(), fulmar_council::CouncilError>(())
//! ```
//!
//! # What is guaranteed
//!
//! If a message between correct members, with all that is computed before and after it, takes less than a third of a round (their starts
//! differ by two messages, and one more is on its way), if two that run are connected in less than two thirds of a round (they call each
//! other ten times a second), if their clocks run at nearly the same speed, and if no more than t of n > 3t
//! are faulty, then the protocol's own guarantees hold: each correct member is heard in each round by every other. A round without faulty
//! members ends as soon as all have been heard. Nobody is taken for somebody else, and nobody who is no member is listened to. Of each
//! member no more is kept than two rounds' messages of [`MOST_BYTES`].
//!
//! When this member itself is too slow it finds out, if it misses more than t others: [`Failure::Faulty`]. Who comes when the first round
//! is over is told so by more than t others: [`Failure::Begun`].
//!
//! Not guaranteed: anything when a message may take longer than that; service while strangers flood the port; secrecy towards members. Who
//! is faulty is what one member has seen of its connections: a liar in good order is not found here, but endured by the protocol.

mod caller;
mod council;
mod door;
mod frame;
mod greeting;
mod happened;
mod key;
#[cfg(debug_assertions)]
mod liar;
mod meeting;
mod news;
mod overtime;
mod session;
mod tls;

pub use council::{Council, CouncilError, MOST_MEMBERS, Member};
pub use frame::{Frame, MOST_BYTES, ReadError, Verdict};
pub use key::{Digest, Identity, KeyError, PublicKey, Signature};
#[cfg(debug_assertions)]
pub use liar::{Strategy, UnknownStrategy};
pub use meeting::{Meeting, Report};
pub use news::{Failure, Fault, News, Outcome};
pub use session::{Link, Session};
