//! Resource discovery in O(log D · log log n) rounds (Haeupler and Malkhi 2015, section 2).
//!
//! What is other than printed:
//!
//! - Algorithm 2, lines 8 to 11: one coin decides whether a cluster gives up its request and whether it accepts the one it received.
//!   With two, of clusters that ask each other each may accept the other, and nobody leads; the proof of Lemma 2 has it as here. Requests
//!   are not retracted: an offer is, by not being accepted.
//! - Algorithm 5, line 1: the coin is a hash of the leader's address, so whoever knows an address knows whether it is a centre, and
//!   line 3 costs nothing. A cluster explores until it knows a centre, not until it knows d clusters.
//! - Who has found no centre stays as it is, and so nothing is lost if chance is unkind; the paper's analysis excludes it.
//! - Algorithms 3 and 4 go side by side, and d clusters are found in two hops of √d calls. Who has many neighbours asks more.
//! - Algorithm 4, line 3: only clusters heard of in the last round are asked, as a shortest path has one of these on it at half its
//!   length; so no cluster asks another twice.
//! - Whoever knows all addresses, by whatever way, is done: it tells those that follow it and answers with all of them. So a hub
//!   that knew all from the start ends it.
//! - Line 11 of Algorithm 1 splits only if asked to: at sizes that can be run it costs messages and saves none.
//! - Section 2.3 does not count what clusters say within. Here all of that is counted.
//!
//! | in the paper | here |
//! | --- | --- |
//! | cluster, its leader, its size | [`Cluster`], [`Sublogarithmic::leader`], [`Sublogarithmic::members`] |
//! | Algorithm 1, its main loop and what s and d are in each iteration | [`Plan`], [`Step`] |
//! | Algorithm 2, INITIALIZATION(r) | `request`, `offer`, `forward`, `accept`; `initialization::Courtship` |
//! | Algorithm 3, DISCOVERCNEIGHBORS(s, r) | `explore`, `exploration::Exploration::ask`, of neighbours |
//! | Algorithm 4, INFLATEOUTDEGREE(d) | the same, of leaders that were heard of in the last round |
//! | Algorithm 5, SAMPLEMERGE(d) | `merge`, [`Plan`]'s centres |
//! | splitting of clusters larger than s | `split` |

mod exploration;
mod initialization;
mod message;
mod plan;

pub use message::{Message, Survey};
pub use plan::{Constants, Plan, Step};

use crate::Marks;
use crate::cluster::Cluster;
use crate::model::{Machine, Round};
use exploration::Exploration;
use fulmar_node::{NodeId, Random};
use initialization::Courtship;
use std::sync::Arc;

/// A machine that discovers in clusters.
#[derive(Debug)]
pub struct Sublogarithmic {
    me: NodeId,
    plan: Arc<Plan>,
    random: Random,
    /// Itself, if and only if `led` is its cluster.
    leader: NodeId,
    led: Option<Box<Led>>,
    /// What was asked of its leader by way of it.
    requests: Vec<NodeId>,
    /// Whom it knew at the beginning, and itself.
    known: usize,
    /// All machines, once it knows them.
    all: Option<Arc<Survey>>,
}

/// What a leader has.
#[derive(Debug)]
struct Led {
    cluster: Cluster,
    courtship: Courtship,
    /// Those that have joined in the last round.
    joined: Vec<Arc<Cluster>>,
    /// While it explores.
    exploration: Option<Exploration>,
    /// So many members, from the first one on, know all.
    told: usize,
}

impl Led {
    fn of(cluster: Cluster) -> Box<Self> {
        let (courtship, joined, exploration) = Default::default();
        Box::new(Self { cluster, courtship, joined, exploration, told: 1 })
    }

    /// What it has found out, with what was heard last; from its neighbours on if it has not begun.
    fn explore(&mut self, everyone_leads: bool, marks: &mut Marks) -> &mut Exploration {
        let Self { cluster, exploration, .. } = self;
        let begin = || {
            let (own, neighbours) = (cluster.members.as_slice().into(), cluster.neighbours.clone());
            let of = if everyone_leads { Exploration::among_leaders } else { Exploration::new };
            of(own, neighbours)
        };
        let exploration = exploration.get_or_insert_with(begin);
        exploration.digest(marks);
        exploration
    }

    /// Where answers go.
    fn heard(&mut self) -> &mut Exploration {
        self.exploration.as_mut().expect("who has asked explores")
    }
}

impl Sublogarithmic {
    /// One that knows these.
    pub fn new(me: NodeId, neighbours: &[NodeId], plan: Arc<Plan>, random: Random) -> Self {
        let led = Some(Led::of(Cluster::of(me, neighbours)));
        Self {
            me,
            plan,
            random,
            leader: me,
            led,
            requests: Vec::new(),
            known: neighbours.len() + 1,
            all: None,
        }
    }

    /// Whom it follows: itself, if it leads a cluster.
    pub const fn leader(&self) -> NodeId {
        self.leader
    }

    /// Those that follow it, itself first; nobody, if it follows another.
    pub fn members(&self) -> &[NodeId] {
        self.led.as_ref().map_or(&[], |led| &led.cluster.members)
    }

    /// Leaves its cluster, if it leads one, to another, and tells its members.
    fn join(&mut self, other: NodeId, round: &mut Round<'_, Message>) {
        if let Some(led) = self.led.take() {
            led.cluster.members[1..].iter().for_each(|&member| round.push(member, Message::Follow(other)));
            round.push(other, Message::Join(Arc::new(led.cluster)));
            self.leader = other;
        }
    }

    fn request(&mut self, round: &mut Round<'_, Message>) {
        let Some(led) = &mut self.led else { return };
        led.courtship = Courtship::default();
        if let Some(&neighbour) = self.random.choose(&led.cluster.neighbours) {
            round.push(neighbour, Message::Requests(vec![self.me]));
        }
    }

    fn offer(&mut self, round: &mut Round<'_, Message>) {
        let Some(led) = &mut self.led else { return };
        led.courtship.requests.append(&mut self.requests);
        if let Some((joiners, is_sure)) = led.courtship.offers(self.me, &mut self.random) {
            joiners.iter().for_each(|&joiner| round.push(joiner, Message::Offer(self.me, is_sure)));
        }
    }

    /// Members hand on what was asked of their leader.
    fn forward(&mut self, round: &mut Round<'_, Message>) {
        if self.led.is_none() && !self.requests.is_empty() {
            round.push(self.leader, Message::Requests(std::mem::take(&mut self.requests)));
        }
    }

    fn accept(&mut self, round: &mut Round<'_, Message>) {
        let other = self.led.as_ref().and_then(|led| led.courtship.accepted(self.me));
        if let Some(other) = other {
            self.join(other, round);
        }
    }

    /// Algorithms 3 and 4 for who needs a centre and knows none.
    fn explore(&mut self, iteration: usize, round: &mut Round<'_, Message>) {
        let Some(led) = &mut self.led else { return };
        led.explore(self.plan.everyone_leads(round.number), round.marks);
        let Some(exploration) = &mut led.exploration else { return };
        let is_centre = |leader: &NodeId| self.plan.is_centre(iteration, *leader);
        // A centre that nobody has joined may be in reach of nobody.
        let waits = is_centre(&self.me) && (iteration == 0 || led.cluster.members.len() > 1);
        if !waits && !exploration.known().any(|leader| is_centre(&leader)) {
            exploration.ask_again(&mut self.random, round);
            exploration.ask(self.plan.sample(Some(iteration)), &mut self.random, round);
        }
    }

    /// Algorithm 5. Who knows no centre stays as it is.
    fn merge(&mut self, iteration: usize, round: &mut Round<'_, Message>) {
        let Some(led) = &mut self.led else { return };
        let is_centre = |leader: &NodeId| self.plan.is_centre(iteration, *leader);
        let exploration = led.explore(self.plan.everyone_leads(round.number), round.marks);
        let centres: Vec<NodeId> = exploration.known().filter(is_centre).collect();
        led.exploration = None;
        if let Some(&centre) = self.random.choose(&centres).filter(|_| !is_centre(&self.me)) {
            self.join(centre, round);
        }
    }

    /// Lines 4 and 11 of Algorithm 1: pieces of equal size, whose leaders know each other and share the neighbours.
    fn split(&mut self, most: usize, round: &mut Round<'_, Message>) {
        let Some(led) = self.led.as_mut().filter(|led| led.cluster.members.len() > most) else { return };
        let Cluster { members, neighbours } = &led.cluster;
        let pieces = members.len().div_ceil(most);
        let deal = |piece: usize, all: &[NodeId]| {
            all.iter().copied().skip(piece).step_by(pieces).collect::<Vec<_>>()
        };
        let leaders = &members[..pieces];
        let piece = |number: usize| {
            let others = leaders.iter().copied().filter(|leader| *leader != leaders[number]);
            let neighbours = deal(number, neighbours).into_iter().chain(others).collect();
            Cluster { members: deal(number, members), neighbours }
        };
        for number in 1..pieces {
            let piece = piece(number);
            for &member in &piece.members[1..] {
                round.push(member, Message::Follow(piece.members[0]));
            }
            round.push(piece.members[0], Message::Lead(Arc::new(piece)));
        }
        led.cluster = piece(0);
    }

    /// Line 13, for those that do not know all.
    fn survey(&mut self, round: &mut Round<'_, Message>) {
        let Some(led) = &mut self.led else { return };
        let exploration = led.explore(self.plan.everyone_leads(round.number), round.marks);
        if exploration.members() == self.plan.machines {
            self.all = Some(exploration.survey());
            return self.tell(round);
        }
        exploration.ask_again(&mut self.random, round);
        exploration.ask(self.plan.sample(None), &mut self.random, round);
    }

    /// Line 14: who knows all tells the members that do not.
    fn tell(&mut self, round: &mut Round<'_, Message>) {
        if let (Some(led), Some(all)) = (&mut self.led, &self.all) {
            let told = std::mem::replace(&mut led.told, led.cluster.members.len());
            led.cluster.members[told..]
                .iter()
                .for_each(|&member| round.push(member, Message::Survey(Arc::clone(all))));
        }
    }
}

impl Machine for Sublogarithmic {
    type Message = Message;

    fn act(&mut self, round: &mut Round<'_, Message>) {
        if let Some(led) = &mut self.led {
            led.cluster.absorb(&std::mem::take(&mut led.joined), round.marks);
            if self.all.is_none() && led.cluster.addresses() == self.plan.machines as u64 {
                self.all = Some(Arc::new(Survey::of(&led.cluster)));
            }
        }
        if self.all.is_some() {
            return self.tell(round);
        }
        match self.plan.step(round.number) {
            Step::Request => self.request(round),
            Step::Forward => self.forward(round),
            Step::Offer => self.offer(round),
            Step::Accept => self.accept(round),
            Step::Explore(iteration) => self.explore(iteration, round),
            Step::Merge(iteration) => self.merge(iteration, round),
            Step::Split(most) => self.split(most, round),
            Step::Survey => self.survey(round),
        }
    }

    fn answer(&self) -> Message {
        if let Some(all) = &self.all {
            return Message::Survey(Arc::clone(all));
        }
        let exploration = self.led.as_ref().and_then(|led| led.exploration.as_ref());
        let survey = exploration.and_then(|exploration| exploration.answer.clone());
        survey.map_or(Message::Leader(self.leader), Message::Survey)
    }

    fn hear(&mut self, message: Message) {
        let led = self.led.as_deref_mut();
        match (message, led) {
            (Message::Requests(leaders), _) => self.requests.extend(leaders),
            (Message::Offer(from, is_sure), Some(led)) => led.courtship.offer = Some((from, is_sure)),
            (Message::Join(cluster), Some(led)) => led.joined.push(cluster),
            (Message::Leader(leader), Some(led)) => led.heard().leaders.push(leader),
            (Message::Survey(survey), _) if survey.members == self.plan.machines => self.all = Some(survey),
            (Message::Survey(survey), Some(led)) => led.heard().surveys.push(survey),
            (Message::Follow(leader), None) => self.leader = leader,
            (Message::Lead(cluster), None) => {
                self.leader = self.me;
                self.led = Some(Led::of(Arc::unwrap_or_clone(cluster)));
            }
            (message, led) => unreachable!("{}, a leader: {}, hears {message:?}", self.me, led.is_some()),
        }
    }

    fn known(&self) -> usize {
        self.all.as_ref().map_or(self.known, |all| all.members)
    }
}
