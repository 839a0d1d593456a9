//! What is said of one node, and which of two things said of it is the newer.

use super::name::Name;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// An address, in messages and in what is hashed of a member.
pub(super) fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend(ip.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

/// Which life of a node something is said of, and how often it has been contradicted in that life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// The node's clock when it began, in microseconds: a node that restarts is another one.
    pub life: u64,
    /// So often the node itself has refuted that it was suspected or dead.
    pub refutations: u32,
}

/// No clock is ahead of another by so much, a century in microseconds.
pub(super) const CENTURY: u64 = 100 * 365 * 24 * 60 * 60 * 1_000_000;

impl Incarnation {
    /// Whether a node can be in this life by now, in microseconds. A later one is an invention: if there were no bound, of the last life
    /// there is something could be said that its node has no word left to refute with.
    pub(super) const fn can_be(self, now: u64) -> bool {
        self.life <= now.saturating_add(CENTURY)
    }

    /// The next in the same life, or in another if there is none, or if that is to be `anew`.
    pub(super) fn next(self, anew: bool) -> Self {
        match self.refutations.checked_add(1).filter(|_| !anew) {
            Some(refutations) => Self { refutations, ..self },
            None => Self { life: self.life.saturating_add(1), refutations: 0 },
        }
    }
}

/// What is believed of an incarnation. Of two beliefs the later in this list holds, as with SWIM (Das and others 2002, section
/// 4.2): only the node itself, by a higher incarnation, gets back to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It has said so itself.
    Alive,
    /// It does not answer somebody; it may refute that.
    Suspect,
    /// It did not refute it in time.
    Dead,
    /// It has said farewell.
    Left,
}

impl Standing {
    /// All of them, each at the place of its code.
    pub const ALL: [Self; 4] = [Self::Alive, Self::Suspect, Self::Dead, Self::Left];

    /// As people read it, and as figures are told apart by it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspected",
            Self::Dead => "dead",
            Self::Left => "left",
        }
    }

    /// Whether a node of this standing is in the view.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Alive | Self::Suspect)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A node, and what is believed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it receives datagrams; no two live nodes share it.
    pub address: SocketAddr,
    /// Which life, and what it has refuted in it.
    pub incarnation: Incarnation,
    /// What is believed.
    pub standing: Standing,
    /// What it calls itself.
    pub name: Name,
}

impl Member {
    /// Whether this is to be believed rather than `other`, which is about the same address.
    #[must_use]
    pub fn outranks(&self, other: &Self) -> bool {
        (self.incarnation, self.standing) > (other.incarnation, other.standing)
    }
}

/// The address as it travels: without what means something on one machine only.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(six) => SocketAddrV6::new(*six.ip(), six.port(), 0, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_belief_yields_to_a_later_one_and_to_a_refutation() {
        let member = |life, refutations, standing| Member {
            address: SocketAddr::from(([10, 0, 0, 1], 7000)),
            incarnation: Incarnation { life, refutations },
            standing,
            name: Name::default(),
        };
        let ascending = [
            member(1, 0, Standing::Alive),
            member(1, 0, Standing::Suspect),
            member(1, 0, Standing::Dead),
            member(1, 1, Standing::Alive),
            member(1, 1, Standing::Left),
            member(2, 0, Standing::Alive),
        ];
        for (at, newer) in ascending.iter().enumerate() {
            assert!(ascending[..at].iter().all(|older| newer.outranks(older) && !older.outranks(newer)));
            assert!(!newer.outranks(newer));
        }
    }
}
