//! What is done in which round: Algorithm 1, with its constants.

use fulmar_node::{NodeId, Random};

/// Where the asymptotics leave a choice. The default ones were chosen by measuring, from 2⁸ to 2¹⁴ machines on trees, expanders and
/// data centers, for few messages first and few rounds second; `docs/discovery.md` says how.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// Iterations of initialization, r.
    pub initialization: u32,
    /// How many times the members of a cluster, as they are on average, are as many clusters of which one becomes a centre, d / s.
    pub growth: f64,
    /// How many times √n clusters are left when all get to know all.
    pub left: f64,
    /// Of √d so many neighbours are asked in a round whom they follow.
    pub sample: f64,
    /// Of the root of how many clusters are left so many of them when all get to know all.
    pub last_sample: f64,
    /// Out-degrees are inflated until so many times d clusters may be known.
    pub reach: f64,
    /// Clusters are split that are so many times as large as they are on average; if none is given, none are.
    pub split: Option<f64>,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            initialization: 0,
            growth: 2.5,
            left: 0.7,
            sample: 1.25,
            last_sample: 4.0,
            reach: 0.7,
            split: None,
        }
    }
}

/// How many times fewer clusters an iteration of initialization leaves, as measured; at most.
const MERGED: f64 = 2.2;

/// The d of single machines.
const FIRST: f64 = 4.0;

/// What all machines do in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Initialization: clusters ask one of their neighbours to merge.
    Request,
    /// Members hand on to their leader what they were asked.
    Forward,
    /// Joinees make offers.
    Offer,
    /// Joiners accept them.
    Accept,
    /// Neighbours are asked whom they follow, and leaders whom they know, until a centre is known.
    Explore(usize),
    /// Who is no centre joins one.
    Merge(usize),
    /// Clusters with more members than this are split.
    Split(usize),
    /// Explores until all are known.
    Survey,
}

/// What a machine has to know besides its neighbours: how many machines there are, how deep the network is at most, and chance that all
/// share.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) machines: usize,
    salt: u64,
    steps: Vec<Step>,
    /// For each iteration of the main loop: d, and how many neighbours are asked in a round.
    iterations: Vec<(f64, usize)>,
    last_sample: usize,
}

impl Plan {
    /// For `machines` machines, each of which is at most `diameter` steps from any other.
    pub fn new(machines: usize, diameter: usize, constants: &Constants, salt: u64) -> Self {
        let root = (machines as f64).sqrt();
        let mut steps = Vec::new();
        for iteration in 0..constants.initialization {
            steps.push(Step::Request);
            // At first everyone leads itself.
            steps.extend((iteration > 0).then_some(Step::Forward));
            steps.extend([Step::Offer, Step::Accept]);
        }
        let mut size = MERGED.powi(constants.initialization.cast_signed());
        let degrees = degrees(size, root / (constants.left * size), constants.growth);
        let mut iterations = Vec::new();
        for (iteration, &degree) in degrees.iter().enumerate() {
            // One round asks neighbours, and each one after it doubles how far a cluster sees (Lemma 4).
            let doublings = logarithm(constants.reach * degree).min(logarithm(diameter as f64) + 1);
            let first = usize::from(!steps.is_empty());
            steps.extend((0..first + doublings).map(|_| Step::Explore(iteration)));
            steps.push(Step::Merge(iteration));
            size *= degree;
            steps.extend(constants.split.map(|times| Step::Split(ceiling(times * size))));
            iterations.push((degree, ceiling(constants.sample * degree.sqrt())));
        }
        Self {
            machines,
            salt,
            steps,
            iterations,
            last_sample: ceiling(constants.last_sample * (constants.left * root).sqrt()),
        }
    }

    /// What is done in this round.
    pub fn step(&self, round: u32) -> Step {
        self.steps.get(round as usize).copied().unwrap_or(Step::Survey)
    }

    /// Whether clusters have not begun to merge by this round.
    pub(super) fn everyone_leads(&self, round: u32) -> bool {
        self.step(0) == Step::Explore(0) && self.step(round) == Step::Explore(0)
    }

    /// Whether a leader is a centre in an iteration. The coin is a hash of its address, so that whoever knows the address knows how
    /// it fell.
    pub(super) fn is_centre(&self, iteration: usize, leader: NodeId) -> bool {
        let mixed = Random::new(self.salt ^ (iteration as u64) << 32 ^ u64::from(leader.0)).next();
        Random::new(mixed).happens(1.0 / self.iterations[iteration].0)
    }

    /// How many neighbours a cluster asks in a round, and as many leaders at most.
    pub(super) fn sample(&self, iteration: Option<usize>) -> usize {
        iteration.map_or(self.last_sample, |iteration| self.iterations[iteration].1)
    }
}

/// The d of each iteration: so that clusters of some `size` become `times` as large, by d ≤ `growth` · s each time. As few as can be,
/// and none larger for its s than others; but the first of single machines, who know all they need, is as large as may be.
fn degrees(size: f64, times: f64, growth: f64) -> Vec<f64> {
    let alone = if size > 1.0 { 1.0 } else { FIRST.min(times) };
    let mut degrees: Vec<f64> = Vec::new();
    let mut reached = 1.0;
    while reached < times / alone {
        let degree = growth * size * alone * reached;
        degrees.push(degree);
        reached *= degree;
    }
    let exponent = (times / alone).ln() / reached.ln();
    let first = (alone > 1.0).then_some(alone);
    first.into_iter().chain(degrees.iter().map(|degree| degree.powf(exponent))).collect()
}

/// ⌈log₂⌉ of what is at least 1; 0 of less.
fn logarithm(number: f64) -> usize {
    ceiling(number.max(1.0).log2())
}

/// Rounded up; these numbers are far below 2⁵³.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and not negative")]
fn ceiling(number: f64) -> usize {
    number.ceil() as usize
}
