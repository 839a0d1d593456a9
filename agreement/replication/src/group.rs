//! Who replicates, and how.

use crate::View;
use fulmar_node::NodeId;
use std::fmt;

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

impl fmt::Display for Protocol {
    /// As settings name it. Charters of services are named by it, too: it stays as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewstamped => "viewstamped",
            Self::Fast => "fast-paxos",
            Self::Speculative => "speculative-paxos",
        })
    }
}

/// A replica's place in a group. Who comes back without its memory is another incarnation: what the former one has promised, it
/// cannot keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Where it is reached.
    pub node: NodeId,
    /// Which of the node's lives it is: 0 for one that a group was founded with, and none that was before.
    pub incarnation: u64,
}

/// The replicas of one state machine, in one epoch of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    epoch: u64,
    members: Vec<Member>,
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
    /// Who has lost its memory comes back as who it was.
    KeepsIncarnation,
    /// A replica promises what is not on its disk.
    PromisesEarly,
    /// A leader that has crashed goes on to lead its view.
    LeadsAgain,
    /// A leader answers queries without asking whether it still leads…
    SkipsRound,
    /// …or before it has carried out what may have been answered before it led.
    AnswersEarly,
    /// A request that is in the log twice takes place twice.
    ExecutesTwice,
    /// Who was forgotten is taken for one that never asked.
    ForgetsSessions,
    /// A client counts replies of different views and states together.
    MixesReplies,
    /// A group says that it has followed another before f + 1 of it hold what that has left.
    GoesOnUnestablished,
    /// What was promised of a log holds after a checkpoint that it did not lead to.
    KeepsPromises,
    /// A log takes whatever clients ask for, whether or not anything is committed.
    TakesAll,
    /// Operations count until the next checkpoint, however long they are.
    CountsOperations,
    /// The log of a view and its name are two records.
    TearsInstall,
    /// Under speculation a query is executed.
    ExecutesQueries,
    /// A log goes in one message, however long it is.
    SendsWholeLogs,
    /// With each sign a leader sends again what is not confirmed, which may still be on its way.
    SendsAgainAtOnce,
    /// Who hears of no leader wants the next view, whatever others hear.
    Impatient,
    /// A leader that speculates leaves its view if nothing is committed, whether or not it is for want of a superquorum.
    Hasty,
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
    /// A group that is founded: these replicas, in the order in which they become leaders.
    ///
    /// # Errors
    /// [`GroupError`] if their number is even, or one is named twice.
    pub fn new(nodes: impl IntoIterator<Item = NodeId>, protocol: Protocol) -> Result<Self, GroupError> {
        let founders = nodes.into_iter().map(|node| Member { node, incarnation: 0 });
        Self::of_epoch(0, founders.collect(), protocol)
    }

    pub(crate) fn of_epoch(epoch: u64, members: Vec<Member>, protocol: Protocol) -> Result<Self, GroupError> {
        if members.len().is_multiple_of(2) {
            return Err(GroupError::Even(members.len()));
        }
        let is_twice = |place: usize| members[..place].iter().any(|other| other.node == members[place].node);
        match (0..members.len()).find(|place| is_twice(*place)) {
            Some(place) => Err(GroupError::Twice(members[place].node)),
            None => Ok(Self {
                epoch,
                members,
                protocol,
                #[cfg(test)]
                defect: None,
            }),
        }
    }

    /// The group that is to follow this one.
    ///
    /// # Errors
    /// As [`Group::new`].
    pub fn followed_by(&self, members: Vec<Member>, protocol: Protocol) -> Result<Self, GroupError> {
        let next = Self::of_epoch(self.epoch + 1, members, protocol)?;
        #[cfg(test)]
        let next = next.with_defect(self.defect);
        Ok(next)
    }

    #[cfg(test)]
    pub(crate) fn with_defect(self, defect: Option<Defect>) -> Self {
        Self { defect, ..self }
    }

    /// Whether the simulation is to find this.
    #[cfg(test)]
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// The group that is to follow this one so that `member` takes the place of its former incarnation, if that has one.
    #[must_use]
    pub fn with_incarnation(&self, member: Member) -> Option<Self> {
        let place = self.members.iter().position(|former| former.node == member.node)?;
        let mut next = Self { epoch: self.epoch + 1, ..self.clone() };
        next.members[place] = member;
        Some(next)
    }

    /// How many groups of the same state machine were before.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The replicas.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Where the replicas are reached.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.members.iter().map(|member| member.node)
    }

    /// Whether one of the replicas is reached there.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes().any(|member| member == node)
    }

    /// How operations get into its log.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The members other than `me`.
    pub fn others(&self, me: Member) -> impl Iterator<Item = NodeId> {
        self.nodes().filter(move |node| *node != me.node)
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
        let place = view.number % self.members.len() as u64;
        self.members[usize::try_from(place).unwrap_or_default()].node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_odd_and_of_different_members() {
        let group = |members: &[u32]| Group::new(members.iter().copied().map(NodeId), Protocol::Viewstamped);
        assert_eq!(group(&[]), Err(GroupError::Even(0)));
        assert_eq!(group(&[1, 2, 3, 4]), Err(GroupError::Even(4)));
        assert_eq!(group(&[1, 2, 1]), Err(GroupError::Twice(NodeId(1))));
        let five = group(&[1, 2, 3, 4, 5]).expect("it is one");
        assert_eq!((five.failures(), five.quorum(), five.superquorum()), (2, 3, 4));
        assert_eq!(five.leader(View { epoch: 0, number: 7 }), NodeId(3));
        assert_eq!(group(&[9]).map(|one| one.quorum()), Ok(1));
    }

    #[test]
    fn an_incarnation_takes_the_place_of_the_former_one() {
        let group = Group::new([1, 2, 3].map(NodeId), Protocol::Fast).expect("three");
        let again = Member { node: NodeId(2), incarnation: 7 };
        let next = group.with_incarnation(again).expect("it was a member");
        assert_eq!((next.epoch(), next.members()[1]), (1, again));
        assert_eq!(next.nodes().collect::<Vec<_>>(), group.nodes().collect::<Vec<_>>());
        assert_eq!(group.with_incarnation(Member { node: NodeId(4), incarnation: 7 }), None);
        let even = next.followed_by(next.members()[..2].to_vec(), Protocol::Fast);
        assert_eq!(even, Err(GroupError::Even(2)));
    }
}
