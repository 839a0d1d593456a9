//! Who replicates, and how.

use crate::View;
use fulmar_node::NodeId;

/// How operations get into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// The leader gives each its place: viewstamped replication, or Paxos with a leader.
    Viewstamped,
    /// Each replica appends what clients send to all of them, and the leader sees whether they have done so in the same order:
    /// Fast Paxos.
    Fast,
    /// Each replica also executes it at once, and the client sees whether they have done so in the same order: Speculative
    /// Paxos.
    Speculative,
}

/// The replicas of one state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    members: Vec<NodeId>,
    protocol: Protocol,
    #[cfg(test)]
    pub(crate) defect: Option<Defect>,
}

/// What the simulation must find.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// What f replicas hold is committed.
    RepliesBeforeQuorum,
    /// What a majority has found is committed.
    MajorityForSuperquorum,
    /// Logs of earlier views are merged with those of the last.
    IgnoresLastNormal,
}

/// What keeps processes from being a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// With an even number of members one more may fail than is survived with one member less.
    #[error("{0} replicas: a group has an odd number, 2f + 1, to survive the failure of f")]
    Even(usize),
    /// A member is named twice.
    #[error("replica {0} is named twice: each member of a group is another process")]
    Twice(NodeId),
}

impl Group {
    /// The group of these replicas, in the order in which they become leaders.
    ///
    /// # Errors
    /// [`GroupError`] if their number is even, or one is named twice.
    pub fn new(members: Vec<NodeId>, protocol: Protocol) -> Result<Self, GroupError> {
        if members.len().is_multiple_of(2) {
            return Err(GroupError::Even(members.len()));
        }
        let twice = members.iter().enumerate().find(|(place, member)| members[..*place].contains(member));
        match twice {
            Some((_, member)) => Err(GroupError::Twice(*member)),
            None => Ok(Self {
                members,
                protocol,
                #[cfg(test)]
                defect: None,
            }),
        }
    }

    /// The replicas.
    #[must_use]
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// How operations get into its log.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The members other than `me`.
    pub fn others(&self, me: NodeId) -> impl Iterator<Item = NodeId> + use<'_> {
        self.members.iter().copied().filter(move |member| *member != me)
    }

    /// f: so many may fail.
    #[must_use]
    pub const fn failures(&self) -> usize {
        self.members.len() / 2
    }

    /// f + 1: any two sets of so many have a member in common.
    #[must_use]
    pub const fn quorum(&self) -> usize {
        self.failures() + 1
    }

    /// f + ⌈f/2⌉ + 1: a majority of any f + 1 members is among any so many (Fast Paxos; Speculative Paxos, section 4.2.2).
    #[must_use]
    pub fn superquorum(&self) -> usize {
        #[cfg(test)]
        if self.defect == Some(Defect::MajorityForSuperquorum) {
            return self.quorum();
        }
        let failures = self.failures();
        failures + failures.div_ceil(2) + 1
    }

    /// The leader of a view.
    #[must_use]
    pub fn leader(&self, view: View) -> NodeId {
        let place = view.0 % self.members.len() as u64;
        self.members[usize::try_from(place).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_odd_and_of_different_members() {
        let group = |members: &[u32]| {
            Group::new(members.iter().copied().map(NodeId).collect(), Protocol::Viewstamped)
        };
        assert_eq!(group(&[]), Err(GroupError::Even(0)));
        assert_eq!(group(&[1, 2, 3, 4]), Err(GroupError::Even(4)));
        assert_eq!(group(&[1, 2, 1]), Err(GroupError::Twice(NodeId(1))));
        let five = group(&[1, 2, 3, 4, 5]).expect("it is one");
        assert_eq!((five.failures(), five.quorum(), five.superquorum()), (2, 3, 4));
        assert_eq!(five.leader(View(7)), NodeId(3));
        assert_eq!(group(&[9]).map(|one| one.quorum()), Ok(1));
    }
}
