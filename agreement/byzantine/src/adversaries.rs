//! Processes that lie: strategies, and a search for worse ones.
//!
//! A [`Plan`] says, for each process of the adversary and each round, what it does to whom; it is data, so that a seed makes it, a
//! search changes it, and a failure prints it. [`Puppets`] carries it out against any protocol: each process that lies is a few honest
//! copies with different inputs, its *faces*, whose messages are sent as they are, changed, or not at all.

mod forge;
mod plan;
mod puppets;
mod search;
mod shrink;
mod strategies;
#[cfg(test)]
mod tests;

pub use forge::{Claim, Forge, Origin};
pub use plan::{About, Act, Deed, Liar, Lie, Plan, Say, Setting};
pub use puppets::Puppets;
pub use search::search;
pub(crate) use shrink::shrink;
pub use strategies::Strategy;
