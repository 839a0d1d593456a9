//! Switches as they are run, between hosts that are network namespaces. Needs `ip` (iproute2) and the rights of root.

mod barrier;
mod client;
mod garbage;
mod listing;
mod mistakes;
mod network;
mod policing;
mod programs;
mod served;
mod spanning;
mod streams;
mod threads;
mod tunnels;
