//! All algorithms under one name each.

use crate::baselines::{Flooding, KuttenPelegVishkin, LawSiu, NameDropper};
use crate::model::Machine;
use crate::sublogarithmic::{Constants, Plan, Sublogarithmic};
use crate::{Counts, Error, Shape, Topology, network};
use fulmar_node::{NodeId, Random};
use std::sync::Arc;

/// How machines find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// [`Sublogarithmic`].
    Sublogarithmic,
    /// [`Flooding`].
    Flooding,
    /// [`NameDropper`].
    NameDropper,
    /// [`LawSiu`].
    LawSiu,
    /// [`KuttenPelegVishkin`].
    KuttenPelegVishkin,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Sublogarithmic, Self::Flooding, Self::NameDropper, Self::LawSiu, Self::KuttenPelegVishkin];

    /// As tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sublogarithmic => "Haeupler-Malkhi",
            Self::Flooding => "flooding",
            Self::NameDropper => "Name-Dropper",
            Self::LawSiu => "Law-Siu",
            Self::KuttenPelegVishkin => "Kutten-Peleg-Vishkin",
        }
    }
}

/// A network and the chance in it: the same seed gives the same run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its shape.
    pub shape: Shape,
    /// Who knows whom at the beginning.
    pub topology: Topology,
    random: Random,
}

impl Setting {
    /// So many machines in this shape.
    pub fn new(shape: Shape, machines: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let topology = Topology::new(shape, machines, &mut random.fork());
        Self { shape, topology, random }
    }

    /// A machine for each, which has chance of its own.
    pub fn machines<M>(&self, mut one: impl FnMut(NodeId, &[NodeId], Random) -> M) -> Vec<M> {
        let mut random = self.random.clone();
        self.topology.nodes().map(|node| one(node, self.topology.neighbours(node), random.fork())).collect()
    }

    /// What machines of [`Sublogarithmic`] do in which round.
    pub fn plan(&self, constants: &Constants) -> Plan {
        let machines = self.topology.machines();
        let salt = self.random.clone().fork().next();
        Plan::new(machines, self.shape.diameter(machines), constants, salt)
    }

    /// Machines of [`Sublogarithmic`].
    pub fn sublogarithmic(&self, constants: &Constants) -> Vec<Sublogarithmic> {
        let plan = Arc::new(self.plan(constants));
        self.machines(|me, neighbours, random| Sublogarithmic::new(me, neighbours, Arc::clone(&plan), random))
    }

    /// Runs an algorithm until every machine knows all.
    ///
    /// # Errors
    /// As those of [`network::run`], which the algorithms of this crate do not come to.
    pub fn run(&self, algorithm: Algorithm) -> Result<Counts, Error> {
        let machines = self.topology.machines();
        match algorithm {
            Algorithm::Sublogarithmic => self.count(self.sublogarithmic(&Constants::default())),
            Algorithm::Flooding => {
                self.count(self.machines(|me, neighbours, _| Flooding::new(me, machines, neighbours)))
            }
            Algorithm::NameDropper => self.count(
                self.machines(|me, neighbours, random| NameDropper::new(me, machines, neighbours, random)),
            ),
            Algorithm::LawSiu => self
                .count(self.machines(|me, neighbours, random| LawSiu::new(me, machines, neighbours, random))),
            Algorithm::KuttenPelegVishkin => self
                .count(self.machines(|me, neighbours, _| KuttenPelegVishkin::new(me, machines, neighbours))),
        }
    }

    fn count<M: Machine>(&self, mut machines: Vec<M>) -> Result<Counts, Error> {
        network::run(&mut machines, &self.topology, MOST_ROUNDS, |_| {})
    }
}

/// More than any algorithm takes here.
const MOST_ROUNDS: u32 = 10_000;
