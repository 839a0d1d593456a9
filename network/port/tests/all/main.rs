//! Ports on real interfaces.

mod network;
mod packet;
mod wire;
