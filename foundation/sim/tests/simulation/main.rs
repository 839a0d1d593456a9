//! The simulator, tried on a small register that survives crashes.

mod broken;
mod faults;
mod programs;
mod register;
mod time;
