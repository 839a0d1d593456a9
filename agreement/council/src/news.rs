//! What a session tells.

use crate::frame::Verdict;
use crate::key::Digest;
use std::fmt;
use thiserror::Error;

/// Why a member counts as faulty. From then on nothing more is taken of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What it had to send had not come when the round was over.
    Silent,
    /// Its connection has ended before it had halted.
    Lost,
    /// It has sent what is no message.
    Malformed,
    /// It has announced more bytes than any message has.
    TooLarge,
    /// It has sent a round's message again.
    Doubled,
    /// It has sent the message of a round that cannot have begun.
    Ahead,
    /// The signature of what it has decided is wrong.
    Forged,
    /// It has signed that it has decided something else.
    Dissenting,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "nothing came in time",
            Self::Lost => "its connection was lost",
            Self::Malformed => "what came is no message",
            Self::TooLarge => "it announced more than any message has",
            Self::Doubled => "its message came twice",
            Self::Ahead => "it is further than it can be",
            Self::Forged => "its signature is wrong",
            Self::Dissenting => "it has decided something else",
        })
    }
}

/// What happens in a session, for people to read. Members are called by their numbers, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// There are connections to and from this member.
    Connected(usize),
    /// There are no longer.
    Disconnected(usize),
    /// The first round has begun.
    Began,
    /// A member is faulty.
    Faulty {
        /// Which.
        member: usize,
        /// What was the round; 0 before the first.
        round: u32,
        /// Why.
        fault: Fault,
    },
    /// This process has decided.
    Decided {
        /// In which round.
        round: u32,
        /// On what, or on the default ⊥.
        value: Option<Digest>,
    },
    /// It is over.
    Over(Result<Outcome, Failure>),
}

/// How it has ended, if it has ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// On what all correct members have decided; or the default ⊥.
    pub value: Option<Digest>,
    /// In which round this one has.
    pub decided: u32,
    /// After which round this one has halted.
    pub halted: u32,
    /// By member, what it has signed. All are valid and of `value`.
    pub verdicts: Vec<Option<Verdict>>,
    /// Who was faulty, in which round, and why.
    pub faulty: Vec<(usize, u32, Fault)>,
}

/// Why nothing can be said about what the others have decided.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// They were not there in time.
    #[error(
        "only {present} of the members are connected, this one included, and it takes {needed}: see that the others run, \
         and try again"
    )]
    Absent {
        /// How many were.
        present: usize,
        /// n − t.
        needed: usize,
    },
    /// They were connected, and not ready in time.
    #[error("only {ready} members were ready to begin, and it takes {needed}: try again")]
    NotReady {
        /// How many were.
        ready: usize,
        /// n − t.
        needed: usize,
    },
    /// It has gone on without this member.
    #[error(
        "the others began without this member: what they decide they can tell, in the file that they write"
    )]
    Begun,
    /// More than can be tolerated, or this one is slow, or cut off.
    #[error(
        "in round {round} {faulty} members were faulty, and no more than {tolerates} can be tolerated: they lie or are gone, \
         or this one is too slow or cut off; nothing was decided here"
    )]
    Faulty {
        /// The round; 0 before the first.
        round: u32,
        /// How many are.
        faulty: usize,
        /// t.
        tolerates: usize,
    },
    /// It ended without a decision: a defect of the protocol.
    #[error("the protocol halted undecided: that is a defect")]
    Undecided,
}
