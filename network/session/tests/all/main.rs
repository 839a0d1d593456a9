//! Sessions on real sockets: with controllers that these tests make up, and with the tools of Open vSwitch.

mod certificates;
mod peer;
mod programs;
mod secure;
mod sockets;
mod toy;
