//! Trees on a server, in simulation: clients run as programs, messages are lost, doubled and late, the server crashes.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

mod round_trips;
mod transfers;
mod world;
