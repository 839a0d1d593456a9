//! Sessions on real sockets: with controllers that these tests make up, and with the tools of Open vSwitch.

mod peer;
mod programs;
mod sockets;
mod toy;
