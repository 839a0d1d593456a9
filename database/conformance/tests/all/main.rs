//! Whole-system tests: each module is one kind of check, with its broken variants beside it.

mod kill;
mod slt;
mod transfers;
