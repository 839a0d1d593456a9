//! A simulator.

mod clock;
mod control;
mod delay;
mod faults;
mod network;
mod node;
mod program;
mod seeds;
mod sim;
mod trace;
mod wheel;

pub use delay::Delay;
pub use faults::Faults;
pub use network::{CutId, Link, Network, Weather};
pub use node::Processes;
pub use program::{Port, PortError};
pub use seeds::{Failure, Seed, check, seeds};
pub use sim::{Counts, Sim, Simulated};
pub use trace::Detail;
