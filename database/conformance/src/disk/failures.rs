//! Calls of the operating system that fail under a process that commits.

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happens to them.
    pub nature: Nature,
    /// How many calls that could fail succeed before.
    pub first: u64,
    /// How many of the next calls that could fail this happens to.
    pub calls: u64,
}

/// What may happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It answers EIO.
    Error,
    /// It answers ENOSPC if it takes space; the first write, if it is one, takes what is left.
    Full,
    /// It writes only half of what it should.
    Short,
}
