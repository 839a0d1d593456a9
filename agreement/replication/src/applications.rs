//! The state machines that the paper on Speculative Paxos replicates (section 5), but for the key-value store, which is a group
//! of a database.

mod locks;
mod timestamps;
mod undo;

pub use locks::{Fence, LockAnswer, LockMode, LockOperation, Locks, SessionId};
pub use timestamps::Timestamps;
