//! The lab: what papers have measured, measured again beside what they say.
//!
//! What a paper says comes from another machine, so it is compared as what is the same on all: counts, and ratios of two things
//! measured in turn.

pub mod byzantine;
pub mod discovery;
pub mod open_vswitch;
pub mod speculative_paxos;
