//! Finding each other in earnest: asynchronous, with failures, on datagrams.
//!
//! # The problem
//!
//! The paper's network has rounds, loses nothing, and nobody fails in it (section 1.3 says so, and hopes). A real one delays,
//! loses and doubles, nodes crash, restart, leave and join meanwhile, a datagram has room for some forty addresses, and nobody
//! knows how many nodes there are. And somebody has to say when the search is over.
//!
//! # The idea
//!
//! Clusters with centres, as in section 2.1, without rounds. A node follows the smallest address that it knows and can reach. It
//! hands up to its *centre* what it knows (PUSH), and is answered (PULL): with a smaller address, if the centre follows one
//! itself, and else with all that the centre has learned since. A node that goes over to another centre tells the one that it
//! leaves, so that this goes over, too, and all its cluster: clusters merge as trees do whose nodes point ever closer to the
//! root. In the end all follow one, which knows all, and tells all.
//!
//! What is believed of a node are an *incarnation* (which life of it, and how often it has contradicted in that life) and a
//! *standing*; of two beliefs the newer holds, whoever tells it, in any order and any number. So loss, doubling and reordering
//! can only make things late. The order is that of SWIM (Das, Gupta and Motivala 2002, section 4.2): a suspicion outranks life,
//! death outranks suspicion, and the node itself outranks all three by a higher incarnation. A restart is a new life, named by
//! the clock. (With SWIM death is final, and who was only cut off has to join anew.)
//!
//! *Who watches whom:* a follower its centre, and the centre all. Who is silent is asked three times, then suspected; all are
//! told, the suspect too, perhaps by way of others; who does not refute is dead. Who has avoided a silent centre follows the next
//! smallest address meanwhile. The centre goes on to ask after the dead, some a second, so that a partition heals.
//!
//! *When it is over:* each follower says with its PUSH which view it has, as a digest, and the newest stamp of the centre's clock
//! that it has got. So the centre knows that the follower held this view after that moment. When all members of its own view have
//! confirmed it, nobody is suspected, all addresses known from the start have answered or were called in vain, and nothing has
//! changed for 0.3 seconds, it calls the view *stable*, and says how old the oldest confirmation is.
//!
//! # The structure
//!
//! - [`Finder`], the process: `finder` decides whom to follow; `finder/speech` asks and answers, `finder/watch` suspects,
//!   `finder/verdict` says what is stable. [`Host`] runs one on a socket.
//! - `member`, `roster`: beliefs, their order, and the digest. `peers`, `ascent`, `contacts`: what is kept of others, of what
//!   goes up, and of the addresses known from the start. `pace`: all times.
//! - `message`: the one kind of message, and its bytes; `book`: numbers for addresses.
//!
//! # The papers' names
//!
//! | in SWIM, or (sections 1.3 and 2.1) in the paper | here |
//! | --- | --- |
//! | member; incarnation number | [`Member`]; [`Incarnation`], in which a restart counts, too |
//! | Alive, Suspect, Confirm | [`Standing::Alive`], [`Standing::Suspect`], [`Standing::Dead`] |
//! | which of two messages overrides the other | `roster::Roster::merge` |
//! | ping, ack | `message::Kind::Ask`, `Answer` |
//! | ping-req: others try to reach who is silent | none: all are told of a suspicion, and the suspect refutes it to any of them |
//! | protocol period; suspicion time-out | `pace::BUSY` to `IDLE`; `pace::SUSPICION` |
//! | infection-style dissemination, piggybacked | the journal that goes up to the centre and down from it: `message::Span` |
//! | PUSH, PULL | an ask, which says what its sender has learned, and the answer to it |
//! | cluster, its leader | those that follow one centre; that centre |
//!
//! # Example
//!
//! ```
//! use fulmar_discovery::live::{Event, Host, Name};
//! use std::net::UdpSocket;
//! use std::sync::mpsc::channel;
//!
//! let (one, two) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! let (first, second) = (one.local_addr()?, two.local_addr()?);
//! let (sender, told) = channel();
//! let _one = Host::start(one, first, "one".parse()?, [], move |event| drop(sender.send(event)))?;
//! let _two = Host::start(two, second, "two".parse()?, [first], |_| ())?;
//! let is_all = |event| matches!(event, Event::Stable(stable) if stable.members.len() == 2);
//! assert!(told.into_iter().any(is_all));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! - *What stable means.* Each member of a view that is called stable has held exactly this view at some moment of the stated
//!   time before, and had nobody left to call. That holds whatever the network does, as far as clocks go at the right speed.
//! - *What it does not lack.* Call a node steady that runs all the time and exchanges messages with other steady nodes, none of
//!   them lost or later than a millisecond, and that knew the address of one of them at the start, or was known to it. Two
//!   seconds after the start no view that a steady node calls stable lacks a steady node, whatever the others do. Nodes that
//!   start together in a network that loses nothing have a complete view when the first is called stable.
//! - *The end.* When failures cease, all nodes that are connected by what they know come to have the same view, which is just
//!   those that live, and it is called stable, and stays so.
//! - *Cost.* Messages fit one datagram. Two hundred nodes with three addresses each, of which a tenth crash, take less than 3 s
//!   and eight times *n* log *n* messages. When nothing changes, 2(*n* − 1) messages a second, and to the dead 4, or
//!   a tenth of them.
//! - No bytes make it panic, and it remembers at most [`MOST_MEMBERS`] nodes.
//!
//! Not guaranteed, as no asynchronous network allows it: that a node which is called dead is. One that was slow, or cut off,
//! comes back by itself, and the view was stable without it meanwhile. In a partition each side has a stable view of itself.
//! While two live nodes cannot reach each other at all, no view is stable for long. Names are believed and nothing is signed: who
//! can send datagrams can lie, and have up to nine sent to anybody for each. Two nodes that claim one address contradict each other for ever. The centre does work for all: it
//! is meant for hundreds of nodes, not for millions.

mod ascent;
mod book;
mod contacts;
mod finder;
mod host;
mod member;
mod message;
mod name;
mod pace;
mod peers;
mod roster;
#[cfg(test)]
mod simulation;

pub use finder::{Due, Event, Finder, Missing, Request, Stable};
pub use host::{Host, Snapshot};
pub use member::{Incarnation, Member, Standing};
pub use message::{LARGEST_MESSAGE, Message};
pub use name::{BadName, Name};
pub use roster::{Digest, MOST_MEMBERS};
