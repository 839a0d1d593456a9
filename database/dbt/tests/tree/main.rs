//! The tree from outside: its transactions, its durability, its concurrency and the space it takes.

#![allow(clippy::unwrap_used, reason = "a test panics on what it does not expect")]

mod astray;
mod counts;
mod crashes;
mod disk;
mod model;
mod stale;
mod threads;
