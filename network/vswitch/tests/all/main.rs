//! The switch beside Open vSwitch: the same flows, the same frames.

mod programs;
