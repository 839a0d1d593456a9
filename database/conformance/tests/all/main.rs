//! Whole-system tests: each module is one kind of check, with its broken variants beside it.

mod autoincrement;
mod bad_input;
mod claims;
mod damage;
mod disk;
mod fuzz;
mod hermitage;
mod kill;
mod round_trips;
mod schema;
mod slt;
mod spread;
mod transfers;
mod unread;
