//! What algorithms have in common that unite clusters two by two, or tree by tree: members that follow a leader, which asks one
//! neighbour at a time.

use crate::Content;
use crate::cluster::Cluster;
use crate::model::Round;
use fulmar_node::NodeId;
use std::sync::Arc;

/// What is said in clusters and among them.
#[derive(Clone, Debug)]
pub enum Message {
    /// These leaders ask who leads the one that they reached.
    Requests(Vec<NodeId>),
    /// This one does.
    Reply(NodeId),
    /// This cluster joins.
    Join(Arc<Cluster>),
    /// Whom to follow from now on.
    Follow(NodeId),
    /// All machines.
    All(Arc<[NodeId]>),
}

impl Content for Message {
    /// One of five.
    const CONTROL_BITS: u64 = 3;

    fn addresses(&self) -> u64 {
        match self {
            Self::Requests(leaders) => leaders.len() as u64,
            Self::Reply(_) | Self::Follow(_) => 1,
            Self::Join(cluster) => cluster.addresses(),
            Self::All(all) => all.len() as u64,
        }
    }

    fn each_address(&self, hand: &mut dyn FnMut(NodeId)) {
        match self {
            Self::Requests(leaders) => leaders.iter().copied().for_each(hand),
            Self::Reply(leader) | Self::Follow(leader) => hand(*leader),
            Self::Join(cluster) => cluster.each_address(hand),
            Self::All(all) => all.iter().copied().for_each(hand),
        }
    }
}

/// A machine in a cluster.
#[derive(Clone, Debug)]
pub(super) struct United {
    pub(super) me: NodeId,
    machines: usize,
    /// Itself, if and only if `cluster` is what it leads.
    pub(super) leader: NodeId,
    pub(super) cluster: Option<Box<Cluster>>,
    /// Those that joined in the last round.
    pub(super) joined: Vec<Arc<Cluster>>,
    /// Leaders that asked in this phase.
    pub(super) requests: Vec<NodeId>,
    /// Who said in this phase that it leads the one that this one asked.
    pub(super) reply: Option<NodeId>,
    pub(super) known: usize,
    has_told: bool,
}

impl United {
    pub(super) fn new(me: NodeId, machines: usize, neighbours: &[NodeId]) -> Self {
        Self {
            me,
            machines,
            leader: me,
            cluster: Some(Box::new(Cluster::of(me, neighbours))),
            joined: Vec::new(),
            requests: Vec::new(),
            reply: None,
            known: neighbours.len() + 1,
            has_told: false,
        }
    }

    /// What is done in every round: a leader takes in who has joined, tells them, and tells all once it knows all; others hand on.
    pub(super) fn keep_house(&mut self, round: &mut Round<'_, Message>) {
        let joined = std::mem::take(&mut self.joined);
        let Some(cluster) = &mut self.cluster else {
            joined.into_iter().for_each(|cluster| round.push(self.leader, Message::Join(cluster)));
            return;
        };
        for &member in joined.iter().flat_map(|other| &other.members) {
            round.push(member, Message::Follow(self.me));
        }
        cluster.absorb(&joined, round.marks);
        if cluster.members.len() == self.machines && !self.has_told {
            self.has_told = true;
            self.known = self.machines;
            let all: Arc<[NodeId]> = cluster.members.as_slice().into();
            let members = &cluster.members[1..];
            members.iter().for_each(|&member| round.push(member, Message::All(Arc::clone(&all))));
        }
    }

    /// Begins a phase; what is left of the last is forgotten.
    pub(super) fn begin(&mut self) {
        self.requests.clear();
        self.reply = None;
    }

    /// Asks a neighbour who leads it.
    pub(super) fn ask(&self, neighbour: Option<NodeId>, round: &mut Round<'_, Message>) {
        if let Some(neighbour) = neighbour {
            round.push(neighbour, Message::Requests(vec![self.me]));
        }
    }

    /// Hands on what was asked of its leader.
    pub(super) fn hand_on(&mut self, round: &mut Round<'_, Message>) {
        let requests = std::mem::take(&mut self.requests);
        if self.cluster.is_some() {
            self.requests = requests;
        } else if !requests.is_empty() {
            round.push(self.leader, Message::Requests(requests));
        }
    }

    /// Tells all that asked that it is the leader.
    pub(super) fn reply(&mut self, round: &mut Round<'_, Message>) {
        self.requests.retain(|request| *request != self.me);
        self.requests.iter().for_each(|&request| round.push(request, Message::Reply(self.me)));
    }

    /// Joins, with all its members.
    pub(super) fn join(&mut self, other: NodeId, round: &mut Round<'_, Message>) {
        if let Some(cluster) = self.cluster.take() {
            round.push(other, Message::Join(Arc::new(*cluster)));
            self.leader = other;
            self.requests.clear();
        }
    }

    /// Asked, it says whom it follows.
    pub(super) const fn answer(&self) -> Message {
        Message::Follow(self.leader)
    }

    pub(super) fn hear(&mut self, message: Message) {
        match message {
            Message::Requests(leaders) => self.requests.extend(leaders),
            Message::Reply(leader) => self.reply = Some(leader),
            Message::Join(cluster) => self.joined.push(cluster),
            Message::Follow(leader) => self.leader = leader,
            Message::All(all) => self.known = all.len(),
        }
    }
}
