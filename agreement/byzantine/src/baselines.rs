//! Older protocols, to set beside ours: what they take in rounds, bytes and computation.
//!
//! | | processes | rounds | a message |
//! | --- | --- | --- | --- |
//! | [`Eig`], exponential information gathering (Pease, Shostak and Lamport 1980) | n > 3t | t + 1 | up to (n−1)!/(n−1−t)! values |
//! | [`King`], phase king (Berman, Garay and Perry 1989) | n > 3t | 3(t + 1) | one value |
//! | [`Queen`], phase queen (Berman and Garay 1989) | n > 4t | 2(t + 1) | one value |
//!
//! None stops early: each goes all its rounds, however few processes lie.

mod eig;
mod king;
mod protocols;
mod queen;
mod sequences;
#[cfg(test)]
mod tests;
mod vote;

pub use eig::{Eig, Level};
pub use king::King;
pub use protocols::Baseline;
pub use queen::Queen;
pub(crate) use sequences::Sequences;
pub use vote::Vote;
