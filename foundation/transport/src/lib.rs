//! Processes on real sockets: the driver that owns clocks, threads' time, files and the network, so that a process need
//! not.
//!
//! *Known as:* an event loop (reactor on `epoll`), RPC transport, backpressure, write-ahead log with group commit.
//!
//! # The problem
//!
//! A process of [`fulmar_node`] is a value that is told what happens and answers with what it wants done. Somebody must
//! read sockets for it, find out when its deadlines come, write its records to a disk and carry its messages: as fast as
//! a server that was written for nothing else, and without a chance for a slow or hostile peer to take the memory or the
//! time of the others.
//!
//! # The idea
//!
//! There are two ways to spend a thread on a process, and each gets its own driver.
//!
//! A [`Server`] gives it a thread of its own. One turn of its loop takes all that is ready on all connections, hands it
//! to the process message by message, makes the records of the whole turn durable with one sync, and then sends with one
//! write for each connection. The busier a server is, the more messages share a system call and a sync. There is no lock
//! and no second thread on the way of a message: a machine with several cores runs several servers, each with its own
//! name and port.
//!
//! A [`Client`] has no thread: its process runs on its caller's while the caller waits. While one server's answer is out
//! a request is one `write` and one blocking `read`; while several are, a `poll` stands in between.
//!
//! Both keep what the network owes a process small: messages may be lost, and processes retry. So whatever is too much
//! is dropped (and counted) instead of queued, a connection that breaks takes its messages with it, and nothing needs to
//! be acknowledged twice.
//!
//! # The structure
//!
//! - [`Wire`] turns messages into bytes. Streams (TCP or Unix sockets, by [`Address`]) carry them in frames of four bytes
//!   of length and a body; [`Datagrams`] carry those that fit, several in one if they go to the same server or IP multicast group.
//! - The first frames of a connection are greetings: [`Protocol`] is what both ends must have in common, and a
//!   [`Refusal`] is readable in every version. Messages follow a greeting without waiting for its answer, so that the
//!   first request takes no round trip more than the others. Servers have names of their own; a client gets one from each
//!   server for the time of a connection, from [`FIRST_CLIENT`] on.
//! - A server's world: a [`Log`] for records, a [`User`] for events and [`Notice`]s of what happens to connections, and a
//!   [`Handle`] for other threads. [`Limits`] bound it; [`Counters`] say what it did.
//!
//! # Example
//!
//! ```
//! use fulmar_node::{Lsn, NodeId, Outbox, Process, Time};
//! use fulmar_transport::{Client, ClusterId, Limits, Protocol, Server};
//! use std::net::TcpListener;
//!
//! /// Answers with the same words. Asked for some, sends them to server 1, and tells the answer.
//! struct Echo;
//!
//! impl Process for Echo {
//!     type Message = Vec<u8>;
//!     type Timer = ();
//!     type Request = Vec<u8>;
//!     type Event = Vec<u8>;
//!     type Record = ();
//!     fn request(&mut self, _now: Time, words: Vec<u8>, out: &mut Outbox<Self>) {
//!         out.send(NodeId(1), words);
//!     }
//!     fn receive(&mut self, _now: Time, from: NodeId, words: Vec<u8>, out: &mut Outbox<Self>) {
//!         if from == NodeId(1) { out.event(words) } else { out.send(from, words) }
//!     }
//! }
//!
//! let protocol = Protocol { cluster: ClusterId(0xf01), version: 1 };
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let mut server = Server::new(NodeId(1), protocol, Limits::default(), Echo, Lsn(0))?;
//! server.listen(listener)?;
//! let handle = server.handle();
//! let thread = std::thread::spawn(move || server.run(&mut (), &mut ()));
//!
//! let mut client = Client::new(protocol, Limits::default(), Echo);
//! client.address(NodeId(1), address.into());
//! assert_eq!(client.request(b"ahoy".to_vec())?, [b"ahoy"]);
//! assert_eq!(client.round_trips(), 1);
//!
//! handle.stop();
//! thread.join().expect("no panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! - A message that arrives is one that a peer of the same cluster and version sent. Over one connection messages arrive
//!   in their order and once. A server that has two connections with another may hear it out of order.
//! - What a process sends because its records are durable leaves when they are. After a failed write or sync of the log
//!   nothing more leaves on a stream, the user hears nothing more, and the server ends.
//! - A connection of a client holds no more unsent bytes than twice [`Limits::unsent`] and a message, one to a server no
//!   more than once and a message. While a client leaves more than the limit unread, its requests wait in the system.
//!   Memory for what is received is lent against bytes that came, never against a length that was announced.
//! - A server whose turn takes long, as its process works or its disk does not answer, is heard of by other servers up to
//!   [`Limits::busy`]. So is one of whose messages a part has not been read yet.
//! - Who comes in under the name of a server that is connected and was heard within the last second is read from, but not
//!   sent to. If the server's address is known, it is called there, and who answers is sent to from then on.
//! - A greeting is whole within five seconds. A server that is full lets go of the client that is idle longest, if it is for a
//!   second, and of connections that have not greeted within a second: who only connects keeps nobody out.
//! - [`Client::round_trips`] is a count that depends on what the process sends and waits for, not on time.
//!
//! Not guaranteed: that messages arrive; that a timer is punctual (never early, and late by the work of a turn); anything
//! against who can write to the ports, for nothing is encrypted or signed, and what comes in under a name is taken for that server's.
//!
//! # Figures
//!
//! `cargo run --release -p fulmar-transport --example echo`: 64 bytes there and back on loopback, clients and server on
//! the same two shared cores, no spinning; medians of five runs. *Bare* is a blocking `write` and `read` at both ends
//! with a thread for each connection and nothing else: with sixteen clients it may use both cores to serve, and a server
//! of a process uses one.
//!
//! | clients | bare | a process | a process, its client connected to two more servers |
//! | ---: | ---: | ---: | ---: |
//! | 1 | 168,000/s, 6.0 µs | 150,000/s, 6.7 µs | 149,000/s, 6.7 µs |
//! | 16 | 289,000/s, 55 µs | 158,000/s, 101 µs | 159,000/s, 101 µs |

mod address;
mod book;
mod client;
mod clock;
mod counters;
mod datagrams;
mod deadlines;
mod frame;
mod hello;
mod keep_alive;
mod limits;
mod link;
mod net;
mod notice;
mod resolver;
mod routes;
mod server;
mod spin;
mod wire;

pub use address::{Address, Listener, NoAddress};
pub use client::{Client, ClientError, GREETING, MeetError};
pub use counters::Counters;
pub use datagrams::{Datagrams, Disturbance, LARGEST_DATAGRAM};
pub use frame::FrameTooLong;
pub use hello::{ClusterId, FIRST_CLIENT, Protocol, Refusal};
pub use limits::Limits;
pub use link::LinkError;
pub use notice::Notice;
pub use resolver::Resolver;
pub use server::{Handle, Log, ServeError, Server, User};
pub use wire::{Malformed, Wire};
