//! Who agrees with whom, about what occasion.

use crate::key::{Digest, PublicKey};
use std::collections::BTreeSet;
use std::time::Duration;
use thiserror::Error;

/// The most members that a council has.
pub const MOST_MEMBERS: usize = 64;

/// One that takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where the others reach it, as `HOST:PORT`.
    pub address: String,
    /// What it is known by.
    pub key: PublicKey,
}

/// Processes that agree, once. All of them must mean the same council: its [digest](Council::digest) is what they greet each other by.
///
/// Invariant: there are n members, each with an address and a key of its own; `tolerates` is t with n > 3t; a round takes some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Council {
    name: String,
    members: Vec<Member>,
    tolerates: usize,
    round: Duration,
}

/// Why there is no such council.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CouncilError {
    /// Too many liars for so few.
    #[error(
        "{members} members cannot tolerate {tolerates} that lie: that takes {} members or more (n > 3t)",
        3 * .tolerates + 1
    )]
    Tolerates {
        /// n.
        members: usize,
        /// t.
        tolerates: usize,
    },
    /// Nobody, or a crowd.
    #[error("{0} members: expected 1 to {MOST_MEMBERS}")]
    Members(usize),
    /// Two members with one key, or at one address.
    #[error("{0} is that of two members: each needs one of its own")]
    Twice(String),
    /// A round without time for a message.
    #[error("a round of no time: expected some milliseconds, more than three times what a message takes")]
    Round,
}

impl Council {
    /// Those `members`, of which `tolerates` may lie, in rounds that take at most `round` each. `name` is the occasion: what was signed
    /// under one name means nothing under another.
    ///
    /// # Errors
    /// If that is no council: see [`CouncilError`].
    pub fn new(
        name: String,
        members: Vec<Member>,
        tolerates: usize,
        round: Duration,
    ) -> Result<Self, CouncilError> {
        if !(1..=MOST_MEMBERS).contains(&members.len()) {
            return Err(CouncilError::Members(members.len()));
        }
        if tolerates.saturating_mul(3) >= members.len() {
            return Err(CouncilError::Tolerates { members: members.len(), tolerates });
        }
        if round < Duration::from_millis(1) {
            return Err(CouncilError::Round);
        }
        let mut names = BTreeSet::new();
        for Member { address, key } in &members {
            for name in [address.clone(), key.to_string()] {
                if let Some(name) = names.replace(name) {
                    return Err(CouncilError::Twice(name));
                }
            }
        }
        Ok(Self { name, members, tolerates, round })
    }

    /// The occasion.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All, in their order: a member's number, from 0, is its place here.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// t, how many may lie.
    #[must_use]
    pub const fn tolerates(&self) -> usize {
        self.tolerates
    }

    /// How many there are at least that do not: n − t.
    #[must_use]
    pub const fn correct(&self) -> usize {
        self.members.len() - self.tolerates
    }

    /// How long a round takes at most.
    #[must_use]
    pub const fn round(&self) -> Duration {
        self.round
    }

    /// The number of the member with this key.
    #[must_use]
    pub fn number(&self, key: &PublicKey) -> Option<usize> {
        self.members.iter().position(|member| member.key == *key)
    }

    /// What tells this council from any other: the SHA-256 of everything that its members must say alike.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = b"fulmar council 1\0".to_vec();
        let mut part = |part: &[u8]| {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part);
        };
        part(self.name.as_bytes());
        part(&(self.tolerates as u64).to_be_bytes());
        part(&self.round.as_nanos().to_be_bytes());
        for Member { address, key } in &self.members {
            part(address.as_bytes());
            part(key.as_bytes());
        }
        Digest::of(&bytes)
    }

    /// What a member signs that has decided on `value`, or on the default ⊥.
    #[must_use]
    pub fn verdict(&self, value: Option<&Digest>) -> Vec<u8> {
        let value = value.map_or(&[][..], |value| value.as_bytes());
        [b"fulmar verdict 1\0", &self.digest().as_bytes()[..], value].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u8) -> Member {
        Member { address: format!("10.0.0.{number}:7600"), key: PublicKey::from_bytes([number; 32]) }
    }

    fn council(members: &[u8], tolerates: usize) -> Result<Council, CouncilError> {
        let members = members.iter().copied().map(member).collect();
        Council::new("eggs".into(), members, tolerates, Duration::from_secs(1))
    }

    #[test]
    fn more_than_three_times_as_many_as_lie() {
        assert!(council(&[1, 2, 3, 4], 1).is_ok());
        let error = council(&[1, 2, 3], 1).expect_err("one too few");
        assert_eq!(error, CouncilError::Tolerates { members: 3, tolerates: 1 });
        assert!(error.to_string().contains("takes 4 members or more"), "{error}");
        assert_eq!(council(&[1, 2, 3], usize::MAX).map_err(|_| ()), Err(()));
        assert_eq!(council(&[], 0), Err(CouncilError::Members(0)));
        assert_eq!(council(&[1, 2, 1], 0), Err(CouncilError::Twice("10.0.0.1:7600".into())));
    }

    #[test]
    fn any_difference_is_another_council() {
        let own = council(&[1, 2, 3, 4], 1).expect("it is one");
        let second = Duration::from_secs(1);
        let others = [
            council(&[1, 2, 4, 3], 1),
            council(&[1, 2, 3, 4], 0),
            Council::new("nests".into(), own.members.clone(), 1, second),
            Council::new("eggs".into(), own.members.clone(), 1, 2 * second),
        ];
        for other in others {
            assert_ne!(other.expect("it is one").digest(), own.digest());
        }
    }
}
