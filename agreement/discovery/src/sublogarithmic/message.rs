//! What machines say.

use crate::Content;
use crate::cluster::Cluster;
use fulmar_node::NodeId;
use std::sync::Arc;

/// Who is in a cluster, the leader first.
pub(super) type Record = Arc<[NodeId]>;

/// What a leader knows of clusters.
#[derive(Debug)]
pub struct Survey {
    /// Its own cluster first.
    pub(super) records: Vec<Record>,
    /// Leaders it has heard of, and whose clusters it does not know.
    pub(super) heard: Vec<NodeId>,
    /// Of all clusters.
    pub(super) members: usize,
}

impl Survey {
    /// A cluster and all that it knows, who need be no cluster.
    pub(super) fn of(Cluster { members, neighbours }: &Cluster) -> Self {
        let records = [members, neighbours].map(|group| group.as_slice().into()).into();
        Self { records, heard: Vec::new(), members: members.len() + neighbours.len() }
    }
}

/// What a machine says to another. What is long is held once, whoever it is said to.
#[derive(Clone, Debug)]
pub enum Message {
    /// These leaders want to merge.
    Requests(Vec<NodeId>),
    /// This leader takes in who asked; surely, if more than one did.
    Offer(NodeId, bool),
    /// Who leads this cluster joins.
    Join(Arc<Cluster>),
    /// Whom to follow from now on.
    Follow(NodeId),
    /// Whom to lead from now on.
    Lead(Arc<Cluster>),
    /// Whom it follows, answers a member.
    Leader(NodeId),
    /// What it knows, answers a leader, and says when it is all.
    Survey(Arc<Survey>),
}

impl Content for Message {
    /// One of seven, and a flag.
    const CONTROL_BITS: u64 = 4;

    fn addresses(&self) -> u64 {
        match self {
            Self::Requests(leaders) => leaders.len() as u64,
            Self::Offer(..) | Self::Follow(_) | Self::Leader(_) => 1,
            Self::Join(cluster) | Self::Lead(cluster) => cluster.addresses(),
            Self::Survey(survey) => (survey.members + survey.heard.len()) as u64,
        }
    }

    fn each_address(&self, hand: &mut dyn FnMut(NodeId)) {
        match self {
            Self::Requests(leaders) => leaders.iter().copied().for_each(hand),
            Self::Offer(leader, _) | Self::Follow(leader) | Self::Leader(leader) => hand(*leader),
            Self::Join(cluster) | Self::Lead(cluster) => cluster.each_address(hand),
            Self::Survey(survey) => {
                let members = survey.records.iter().flat_map(|record| record.iter());
                members.chain(&survey.heard).copied().for_each(hand);
            }
        }
    }
}
