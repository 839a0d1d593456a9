//! The subcommands of the `fulmar` binary, a file each: what they take from the command line, and what they do with it.
//!
//! `fulmar net` is a crate of its own, `fulmar_net`.

pub mod agree;
pub mod bench;
pub mod demo;
pub mod discover;
pub mod drain;
pub mod fence;
pub mod lab;
pub mod lock;
pub mod serve;
pub mod sql;
pub mod status;
pub mod switch;
pub mod timestamp;
pub mod transfer;
mod waiting;
