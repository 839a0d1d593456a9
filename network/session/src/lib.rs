//! OpenFlow connections: what a switch keeps for each of its controllers.
//!
//! *Known as:* the OpenFlow channel (`ofconn`), a controller's connection: roles, asynchronous messages, bundles, barriers.
//!
//! # The problem
//!
//! A switch has several controllers, and tools that look on. Some call, others are called; each has its own connection, version, role,
//! and wishes of what it wants to be told. One of them may be slow, silent, wrong, hostile, or a former master that does not know it. None of
//! that may hold up the others, nor the packets.
//!
//! # The idea
//!
//! A session is a state machine without socket, clock or thread: bytes come in; tasks for the switch, and bytes to be sent, come out. It
//! answers by itself whatever is between it and the other side: versions, echoes, barriers, roles, forms, bundles that are not yet
//! complete. The rest is asked of a [`Switch`], one request after the other, so that a barrier needs no more than an answer in its turn.
//!
//! Each session has a thread, which waits for its socket and for what the switch has to tell. So a request that takes long holds up its
//! own session alone. The switch [tells](Sessions::tell) without waiting: what cannot be sent yet is queued, and the queue is bounded.
//!
//! # The structure
//!
//! - [`Sessions`], the face; [`Target`] and [`Settings`], whom to speak with; [`Status`], how that goes.
//! - [`Switch`], who carries out; [`Event`], what it tells.
//! - `session`: the state machine; `election` (roles), `interest` (what it is told), `bundles`, `parts`, `liveness`, `outgoing`: its parts; `task`:
//!   what is asked of the switch.
//! - `attempts`: when a controller is called again. `threads`, `connection`: the threads. `channel`, `door`, `tls`, `signal`: sockets.
//!
//! # Example
//!
//! ```
//! use fulmar_openflow::{Body, ErrorCode, Message};
//! use fulmar_session::{Asker, SessionId, Sessions, Settings, Switch};
//! use std::{io::Read, net::TcpStream, sync::Arc};
//!
//! struct Idle;
//! impl Switch for Idle {
//!     fn request(&self, _: &Asker, _: Body) -> Result<Vec<Body>, ErrorCode> { Ok(Vec::new()) }
//!     fn commit(&self, _: &Asker, _: &[Message]) -> Result<(), (usize, ErrorCode)> { Ok(()) }
//!     fn gone(&self, _: SessionId) {}
//! }
//!
//! let sessions = Sessions::new(Arc::new(Idle), |report| eprintln!("{report}"));
//! sessions.set_controllers(vec![("ptcp:0:127.0.0.1".parse()?, Settings::default())])?;
//! let port = sessions.status()[0].port.expect("it listens");
//! let mut hello = [0; 8];
//! TcpStream::connect(("127.0.0.1", port))?.read_exact(&mut hello)?;
//! assert_eq!(hello[..2], [4, 0]); // up to OpenFlow 1.3, hello
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! - Requests of a session are carried out one by one, in order. A barrier reply means that all before it have been, and an event that
//!   one of them has caused and the switch has told of by then comes before it.
//! - When a controller is told that it is the master, nothing that the master before has asked for is carried out any more.
//! - A malformed message is answered with its error, and the session goes on; only if it cannot be told where the next one begins does
//!   it end. All of a bundle takes effect or nothing.
//! - A session takes a bounded amount of memory, beside what one request is answered. Who does not read is not asked for more; it loses
//!   packets, which are counted; and it is closed when 4 MiB of port-status and flow-removed messages wait, or less if many do not read, rather
//!   than miss any.
//! - When [`Sessions::set_controllers`] returns, nothing more is done for controllers that are gone; when [`Sessions`] is dropped, no
//!   thread is left.
//!
//! Not guaranteed: that a controller with TLS has the name or the address that it was called by: it is enough that the authority has signed it.
//!
//! Not there: versions other than 1.0 and 1.3, auxiliary connections, a limit of packets by time, buffers of
//! packets, names of hosts, and fragments that are put together.

mod attempts;
mod bundles;
mod channel;
mod clock;
mod closed;
mod connection;
mod door;
mod election;
mod event;
mod fuzz;
mod interest;
mod listings;
mod liveness;
mod outgoing;
mod parts;
mod place;
mod session;
mod sessions;
mod share;
mod shared;
mod signal;
mod switch;
mod target;
mod task;
mod threads;
mod tls;
mod visitors;

pub use attempts::State;
pub use event::Event;
pub use fuzz::run_session;
pub use place::{Settings, Status};
pub use sessions::Sessions;
pub use switch::{Asker, SessionId, Switch};
pub use target::{Target, TargetError};
pub use tls::TlsFiles;
