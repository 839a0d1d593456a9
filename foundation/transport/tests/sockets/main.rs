//! Processes on real sockets of this machine.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

mod addresses;
mod busy;
mod claims;
mod datagrams;
mod driving;
mod fixtures;
mod limits;
mod processes;
mod raw;
mod requests;
mod wire;
