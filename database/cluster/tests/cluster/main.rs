//! Trees on servers, in simulation: clients run as programs, messages are lost, doubled and late, servers and clients
//! crash.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

mod addresses;
mod alone;
mod appending;
mod balance;
mod catching_up;
mod commit_wait;
mod constraints;
mod decisions;
mod exclusive;
mod hanging;
mod hostile;
mod isolation;
mod large;
mod leaders;
mod made;
mod node;
mod one_row;
mod records;
mod retiring;
mod round_trips;
#[path = "../../../conformance/src/hostile/said.rs"]
mod said;
mod slow_disks;
mod transfers;
mod unused;
mod world;
