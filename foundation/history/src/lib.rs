//! Checkers of histories: was what clients and processes observed allowed by the specification?
//!
//! *Known as:* consistency checkers: linearizability (Knossos, Porcupine), serializability and snapshot isolation (Elle), strict
//! serializability.
//!
//! # The problem
//!
//! A simulator finds the schedules in which a protocol fails, but only for a test that notices. Invariants of processes
//! say little of what users see, sums of accounts notice few failures, and an expected value exists only where nothing
//! runs at the same time.
//!
//! # The idea
//!
//! The literature defines what is right by *histories*: what was asked, what was answered, and in which order, whoever
//! did it and however. So a test writes down what its clients observe, and at the end of the run a checker either finds
//! nothing or a short counterexample, with the name that the literature gives it. What nobody answered, because a client
//! or a message was lost, may or may not have happened: no checker takes that for a failure.
//!
//! # The structure
//!
//! - [`linearizability`] of objects on which operations take place one at a time: registers, key-value stores, and what
//!   else is a [`Model`](linearizability::Model). For the clients of a replicated state machine.
//! - [`isolation`] of transactions, by cycles of their dependencies: snapshot isolation or serializability, by session
//!   or real time if asked. For databases.
//! - [`order`] of deliveries at all processes of a broadcast. For what replicas agree on.
//!
//! The first search is exponential in the worst case, so its histories are to be cut small, by key or by time. The other
//! two take a little more than linear time: 100,000 transactions of three operations take about a second.
//!
//! # Example
//!
//! Two transactions withdraw from one account, of which both have seen the first version.
//!
//! ```
//! use fulmar_history::isolation::{Isolation, Operation, Order, Outcome, Phenomenon, Transaction, check};
//!
//! let (account, opened) = (7, 100);
//! let open = vec![Operation::Write(account, opened)];
//! let withdraw = |rest| vec![Operation::Read(account, Some(opened)), Operation::Write(account, rest)];
//! let operations = [open, withdraw(90), withdraw(80)];
//! let history = operations.map(|operations| Transaction::new(0, Outcome::Committed, operations));
//! let violations = check(&history, Isolation::Snapshot, Order::Any);
//! assert_eq!(violations[0].phenomenon, Phenomenon::LostUpdate);
//! assert_eq!(violations[0].to_string(), "lost update:\n  T1, T2 read 100 in register 7, and wrote it\n");
//! ```
//!
//! # What is guaranteed
//!
//! What is reported did happen: a checker errs only if its history is false, or uses a value twice (which `isolation`
//! reports). The same history gives the same words.
//!
//! Linearizability is decided. Snapshot isolation and serializability are decided where the order of versions is known:
//! for lists that are read at the end, and where each transaction that committed has a commit timestamp; otherwise
//! phenomena may stay hidden. Not seen are predicates, so no phantoms: read a table as a list if they matter. Agreement
//! and validity of broadcasts are promises for some time or other, and mean something at the end of a run that has
//! healed.

mod graph;
pub mod isolation;
pub mod linearizability;
pub mod order;
