//! State machine replication: a service on 2f + 1 replicas, of which f may fail.
//!
//! *Known as:* consensus, a replicated log, Viewstamped Replication (VR, VSR), Multi-Paxos, Fast Paxos, Speculative Paxos; leader election,
//! quorums, log compaction, reconfiguration.
//!
//! # The problem
//!
//! A service on one server ends with it. On several it must look like one that does not fail: each operation takes place
//! once, at one moment between its invocation and its reply, whatever crashes and whatever the network loses.
//!
//! # The idea
//!
//! A deterministic [`StateMachine`] that carries out the same operations in the same order ends in the same state
//! everywhere. So replicas agree on a [`Log`] of operations, and on nothing else. They move through *views*, each of which
//! has a leader; when it fails, a later view begins with a log that holds all that may have been answered before.
//!
//! # The structure
//!
//! - [`StateMachine`]: what the application gives; [`applications`] are some. [`Client`], and [`Clients`] of one node: how it is
//!   invoked.
//! - [`Replica`]: a member of a [`Group`], whose [`Protocol`] says how operations get into the log:
//!   - *viewstamped* (Oki and Liskov 1988; Liskov and Cowling 2012): the leader gives them their places. Four message delays.
//!   - *fast* (Lamport 2006): they find their places at each replica, and the leader compares. Three.
//!   - *speculative* (Ports and others 2015): they are executed where they have found a place, and the client compares. Two.
//! - [`Log`]: operations, and a hash of each prefix. [`Memory`]: what a replica's [`Record`]s come to.
//! - `execution`: the state machine, and who has been answered what, so that no operation takes place twice.
//! - `leader` and `backup`: what is committed in a view. `view_change`: from a view to a later one. `merge`: with which log that
//!   begins; it is the same rule for all protocols, and that they are safe rests on it. `transfer`: from one replica to another that has missed too
//!   much. `epoch`: from a group to one of other members or another protocol. `speaker`: who may say what.
//!
//! # The papers' names
//!
//! | in the papers | here |
//! | --- | --- |
//! | replica, configuration, epoch number | [`Replica`], [`Group`], [`Group::epoch`] |
//! | view number, op number, commit number | [`View`], [`SequenceNumber`], [`Replica::committed`] |
//! | log, its entries, summary hash | [`Log`], [`Entry`], [`Summary`] |
//! | status normal; view change or RECONCILIATION | `replica::Status::Normal`; `ViewChange` |
//! | status recovering | none: records are on the disk ([`Memory`]), or another incarnation is let in (`epoch`) |
//! | client table | `execution::Execution` |
//! | last view in which the status was normal, v′ or vℓ | `Replica::last_normal` |
//! | REQUEST, REPLY; SPECULATIVE-REPLY | [`Message::Request`], [`Message::Reply`]; [`Message::SpeculativeReply`] |
//! | PREPARE, PREPAREOK; Fast Paxos' phase 2a and 2b of a classic round | [`Message::Prepare`], [`Message::PrepareOk`] |
//! | Fast Paxos' phase 2b of a fast round; SYNC-REPLY, IN-VIEW | [`Message::PrepareOk`], which says how far places are the leader's |
//! | COMMIT; SYNC | [`Message::Commit`], which asks as well |
//! | STARTVIEWCHANGE, START-RECONCILIATION | [`Message::StartViewChange`] |
//! | DOVIEWCHANGE, RECONCILE | [`Message::DoViewChange`] |
//! | STARTVIEW, START-VIEW | [`Message::StartView`] |
//! | merging of logs (Speculative Paxos, section 4.2.4) | `merge` |
//! | GETSTATE, NEWSTATE | [`Message::GetState`], [`Message::State`] and, within a view, [`Message::StartView`] |
//! | RECONFIGURATION, STARTEPOCH, EPOCHSTARTED | [`Invoke::Reconfigure`], [`Message::Group`] |
//! | a client initiates a reconciliation | [`Message::Doubt`]; if answers differ, not at a time-out: there the leader decides |
//! | speculative execution, rollback, commit(s) | `execution`, by [`StateMachine`] |
//!
//! Not in the papers: [`Message::Suspect`] and [`Message::Alive`], by which a replica that is cut off changes no view (`view_change`).
//!
//! # Example
//!
//! ```
//! use fulmar_replication::{Group, Protocol};
//! use fulmar_node::NodeId;
//!
//! let members = [1, 2, 3].map(NodeId);
//! let group = Group::new(members, Protocol::Viewstamped).unwrap();
//! assert_eq!((group.failures(), group.quorum()), (1, 2));
//! let even = Group::new([1, 2].map(NodeId), Protocol::Viewstamped);
//! assert!(even.unwrap_err().to_string().contains("2 replicas"));
//! ```
//!
//! # What is guaranteed
//!
//! Linearizability, if of 2f + 1 replicas no more than f fail at a time: a replica fails when it is down, cannot be reached, or
//! has lost its memory and is not back in the group as another incarnation. Progress, once f + 1 of them can exchange messages
//! again and nothing is slower than their patience. With a disk a replica may crash at any time and comes back with all that it
//! has promised; then even a blackout of all of them loses nothing.
//!
//! Whoever starts a replica without its former memory must give it an incarnation that never was.
//!
//! A client may say anything under its own name: it does no more than invoke operations. Which messages are heard from whom is written down in
//! `speaker/speakers.txt`.
//!
//! Not guaranteed: anything about replicas that lie, or others that go by their names.

pub mod applications;
mod backup;
mod client;
mod clients;
#[cfg(test)]
mod contract;
mod epoch;
mod execution;
mod fast;
mod group;
mod invariants;
mod leader;
mod log;
mod memory;
mod merge;
mod message;
mod options;
mod process;
mod record;
mod replica;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod sockets;
mod speaker;
mod speculative;
mod state_machine;
mod timeout;
mod transfer;
mod view_change;
mod viewstamped;
mod wire;

pub use client::{Client, Invoke, Outcome};
pub use clients::Clients;
pub use execution::Checkpoint;
pub use group::{Group, GroupError, Member, Protocol};
pub use log::{Entry, Log, Summary};
pub use memory::{Memory, Standing};
pub use message::{ClientId, Message, Operation, SequenceNumber, Timer, View};
pub use options::Options;
pub use record::Record;
pub use replica::{Event, Replica, Wish};
pub use state_machine::StateMachine;
pub use timeout::{LeaderTimeout, NoLeaderTimeout};
