//! The contract of a deterministic process: what every protocol of Fulmar is written against.
//!
//! *Known as:* sans-I/O, an actor, an event-driven state machine.
//!
//! # The problem
//!
//! A protocol must be right under every order of messages, every loss and every crash, and fast on real sockets. Written
//! against sockets it can be measured but not explored; written against a model, explored but not run.
//!
//! # The idea
//!
//! A *process* is a value. It is told what happens to it (a message came, a deadline passed, its user asks for
//! something, its records are on the disk) and the time, and answers with effects as data, in an [`Outbox`]. It has no
//! clock, socket, thread, file or chance of its own. So one driver may be a simulator that owns time and failures, and
//! another a thread with sockets, and both run the same code.
//!
//! # The structure
//!
//! - [`Process`]: the contract. [`Outbox`]: the effects of a step. [`Either`]: processes of two kinds under one driver.
//! - [`Time`], [`NodeId`], [`Lsn`]: what processes are told.
//! - [`Random`]: the one generator of the tree, for drivers and tests.
//!
//! # Example
//!
//! ```
//! use fulmar_node::{NodeId, Outbox, Process, Time};
//!
//! /// Answers each number with the next.
//! struct Successor;
//!
//! impl Process for Successor {
//!     type Message = u64;
//!     type Timer = ();
//!     type Request = ();
//!     type Event = ();
//!     type Record = ();
//!     fn receive(&mut self, _now: Time, from: NodeId, number: u64, out: &mut Outbox<Self>) {
//!         out.send(from, number + 1);
//!     }
//! }
//!
//! let mut out = Outbox::default();
//! Successor.receive(Time::ZERO, NodeId(7), 41, &mut out);
//! assert_eq!(out.sends, [(NodeId(7), 42)]);
//! ```
//!
//! # What is guaranteed
//!
//! The same inputs give the same effects, if a process keeps to the contract: each crate of processes bans clocks,
//! threads and maps in random order by its `clippy.toml`, and the simulator runs seeds twice to find what slipped
//! through. Not guaranteed: that messages arrive, or only once, or in order; that a timer is punctual.

mod either;
mod outbox;
mod random;
mod time;

pub use either::Either;
pub use outbox::{Outbox, TimerChange};
pub use random::Random;
pub use time::Time;

use std::fmt;

/// The name of a process among those it talks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A set of processes that one send reaches, if the network is kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MulticastId(pub u32);

/// How many records a process has emitted: a place in its log. The first record makes it 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A deterministic state machine with effects.
///
/// The driver calls one method at a time, carries out the effects that it finds in the outbox, and clears it. A method
/// that a process has no use for does nothing unless it says otherwise.
pub trait Process {
    /// What processes exchange.
    type Message;
    /// Names of its own timers; each name has at most one deadline.
    type Timer: Copy + Ord;
    /// What its local user asks for.
    type Request;
    /// What it tells its local user.
    type Event;
    /// What it must find again after a restart. Records are kept in the order in which they are emitted.
    type Record;

    /// Called once, before anything else. A process that restarts has been made from its records before.
    fn start(&mut self, now: Time, out: &mut Outbox<Self>) {
        let _ = (now, out);
    }

    /// A message arrived. It may be late, or here for the second time, but what it says was sent.
    fn receive(&mut self, now: Time, from: NodeId, message: Self::Message, out: &mut Outbox<Self>) {
        let _ = (now, from, message, out);
    }

    /// Another process is there and has nothing to say yet: it works on something, or waits for its disk; or what it has said is still on
    /// its way.
    fn busy(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        let _ = (now, peer, out);
    }

    /// The connection with another process has ended: that one may be gone, and what was on its way may be lost. Who goes on
    /// without a connection, or loses its machine, is not told of.
    fn disconnected(&mut self, now: Time, peer: NodeId, out: &mut Outbox<Self>) {
        let _ = (now, peer, out);
    }

    /// A deadline has passed. It may be late, and a deadline that was replaced or cancelled may fire all the same: who
    /// cares looks at the time.
    fn expire(&mut self, now: Time, timer: Self::Timer, out: &mut Outbox<Self>) {
        let _ = (now, timer, out);
    }

    /// The local user asks for something.
    fn request(&mut self, now: Time, request: Self::Request, out: &mut Outbox<Self>) {
        let _ = (now, request, out);
    }

    /// All records up to `upto` survive a crash from now on. A send that depends on a record is emitted here, not where
    /// the record was.
    fn durable(&mut self, now: Time, upto: Lsn, out: &mut Outbox<Self>) {
        let _ = (now, upto, out);
    }
}
