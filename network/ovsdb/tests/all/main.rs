//! The database as programs meet it: its replies as golden text, sockets, and the clients of Open vSwitch.

mod golden;
mod programs;
mod served;
mod sockets;
