//! Ports on real interfaces.

mod lanes;
mod network;
mod packet;
mod segments;
mod tap;
mod vxlan;
mod ways;
mod wire;
mod xdp;
