//! Who knows whom at the beginning.

use crate::model::{node, place};
use fulmar_node::{NodeId, Random};

/// Machines of a rack, racks of a row.
const RACK: usize = 16;
const ROW: usize = 16;
/// Whom each machine of [`Shape::RandomOut`] knows, and half of those that one of [`Shape::Expander`] does.
const OUT: usize = 3;
/// Whom a newcomer of [`Shape::PowerLaw`] knows.
const ATTACHED: usize = 2;

/// A kind of network. All are strongly connected, and addresses say nothing about places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each knows the next and the one before.
    Path,
    /// A path whose ends know each other.
    Ring,
    /// A balanced binary tree: each knows its parent and its children.
    Tree,
    /// One knows all, and all know that one.
    Star,
    /// Each knows three: the next in a random order, and two at random. The only one in which knowing is not mutual.
    RandomOut,
    /// Newcomers know two of those that were there, each as likely as many know it (Barabási and Albert 1999); mutual.
    PowerLaw,
    /// Three random rings of all, mutual: each knows six.
    Expander,
    /// Machines know their rack of 16; the first of each rack know each other in rows of 16, and the first of each row those at
    /// distances of powers of two.
    DataCenter,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Path,
        Self::Ring,
        Self::Tree,
        Self::Star,
        Self::RandomOut,
        Self::PowerLaw,
        Self::Expander,
        Self::DataCenter,
    ];

    /// As figures and tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Star => "star",
            Self::RandomOut => "random_out",
            Self::PowerLaw => "power_law",
            Self::Expander => "expander",
            Self::DataCenter => "data_center",
        }
    }

    /// Whether its diameter is polylogarithmic in the number of machines.
    pub const fn is_shallow(self) -> bool {
        !matches!(self, Self::Path | Self::Ring)
    }

    /// What its strong diameter is at most, of so many machines: what operators know of their network. Of the random ones it is so with
    /// high probability, and measured to be so.
    pub fn diameter(self, machines: usize) -> usize {
        let log = machines.next_power_of_two().trailing_zeros() as usize;
        match self {
            Self::Path => machines.saturating_sub(1),
            Self::Ring => machines / 2,
            Self::Tree => 2 * log,
            Self::Star => 2,
            // Distances spread with degree d − 1 or so, and a few steps more to the last.
            Self::RandomOut | Self::PowerLaw | Self::Expander => log + 4,
            Self::DataCenter => {
                machines.div_ceil(RACK * ROW).next_power_of_two().trailing_zeros() as usize + 5
            }
        }
        .max(1)
    }
}

/// A directed graph: whom each machine knows at the beginning.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Where the neighbours of each machine begin in `targets`; one more than there are machines.
    starts: Vec<usize>,
    targets: Vec<NodeId>,
}

impl Topology {
    /// A network of this shape; chance and addresses come from `random`.
    ///
    /// # Panics
    /// If there are no machines, or 2³² or more.
    pub fn new(shape: Shape, machines: usize, random: &mut Random) -> Self {
        assert!(machines > 0, "a network has machines");
        let mut edges = match shape {
            Shape::Path => mutual(path(machines)),
            Shape::Ring => mutual(path(machines).chain([(machines - 1, 0)])),
            Shape::Tree => mutual((1..machines).map(|child| (child, (child - 1) / 2))),
            Shape::Star => mutual((1..machines).map(|leaf| (leaf, 0))),
            Shape::RandomOut => random_out(machines, random),
            Shape::PowerLaw => mutual(power_law(machines, random).into_iter()),
            Shape::Expander => {
                let rings = (0..OUT).flat_map(|_| cycle(machines, random)).collect::<Vec<_>>();
                mutual(rings.into_iter())
            }
            Shape::DataCenter => mutual(data_center(machines).into_iter()),
        };
        let names = shuffled(machines, random);
        for (from, to) in &mut edges {
            (*from, *to) = (names[*from], names[*to]);
        }
        Self::from_edges(machines, edges)
    }

    /// A network in which `from` knows `to` for each of these `edges`.
    ///
    /// # Panics
    /// If an edge is to or from a machine that is none.
    pub fn from_edges(machines: usize, mut edges: Vec<(usize, usize)>) -> Self {
        edges.retain(|(from, to)| from != to);
        edges.sort_unstable();
        edges.dedup();
        let mut starts = vec![0; machines + 1];
        for &(from, _) in &edges {
            starts[from + 1] += 1;
        }
        for at in 0..machines {
            starts[at + 1] += starts[at];
        }
        Self { starts, targets: edges.into_iter().map(|(_, to)| node(to)).collect() }
    }

    /// How many machines there are.
    pub const fn machines(&self) -> usize {
        self.starts.len() - 1
    }

    /// All of them.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.machines()).map(node)
    }

    /// Whom a machine knows, in the order of addresses.
    pub fn neighbours(&self, of: NodeId) -> &[NodeId] {
        &self.targets[self.starts[place(of)]..self.starts[place(of) + 1]]
    }

    /// How far it is from a machine to the farthest; nothing if some cannot be reached.
    pub fn eccentricity(&self, from: NodeId) -> Option<usize> {
        let mut reached = vec![false; self.machines()];
        reached[place(from)] = true;
        let (mut here, mut count, mut steps) = (vec![from], 1, 0);
        while count < self.machines() {
            let mut next = Vec::new();
            for &node in here.iter().flat_map(|&node| self.neighbours(node)) {
                if !std::mem::replace(&mut reached[place(node)], true) {
                    next.push(node);
                }
            }
            if next.is_empty() {
                return None;
            }
            count += next.len();
            steps += 1;
            here = next;
        }
        Some(steps)
    }
}

fn mutual(edges: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    edges.flat_map(|(a, b)| [(a, b), (b, a)]).collect()
}

fn path(machines: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..machines).map(|at| (at - 1, at))
}

fn shuffled(machines: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..machines).collect();
    for last in (1..machines).rev() {
        order.swap(last, random.index(last + 1));
    }
    order
}

fn cycle(machines: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let order = shuffled(machines, random);
    (0..machines).map(|at| (order[at], order[(at + 1) % machines])).collect()
}

fn random_out(machines: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut edges = cycle(machines, random);
    for from in 0..machines {
        edges.extend((1..OUT).map(|_| (from, random.index(machines))));
    }
    edges
}

fn power_law(machines: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut edges: Vec<(usize, usize)> = Vec::with_capacity(ATTACHED * machines);
    for newcomer in 1..machines {
        for _ in 0..ATTACHED.min(newcomer) {
            // An end of an edge is a machine, as likely as many know it.
            let other = match random.choose(&edges) {
                Some(&(a, b)) if a != newcomer => {
                    if random.one_in(2) {
                        a
                    } else {
                        b
                    }
                }
                Some(&(_, b)) => b,
                None => 0,
            };
            edges.push((newcomer, other));
        }
    }
    edges
}

fn data_center(machines: usize) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    // Everyone of a group of `size` neighbours at such a distance knows everyone.
    let mut cliques = |distance: usize, size: usize| {
        for first in (0..machines).step_by(distance * size) {
            let group: Vec<usize> = (first..machines).step_by(distance).take(size).collect();
            for (at, &one) in group.iter().enumerate() {
                edges.extend(group[at + 1..].iter().map(|&other| (one, other)));
            }
        }
    };
    cliques(1, RACK);
    cliques(RACK, ROW);
    let row = RACK * ROW;
    let rows = machines.div_ceil(row);
    for from in 0..rows {
        let distances = (0..usize::BITS).map(|bit| 1 << bit).take_while(|&distance| distance < rows);
        edges.extend(distances.map(|distance| (from * row, (from + distance) % rows * row)));
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_strongly_connected_and_no_deeper_than_it_says() {
        for shape in Shape::ALL {
            for machines in [1, 2, 3, 17, 256, 1000] {
                for seed in 0..5 {
                    let topology = Topology::new(shape, machines, &mut Random::new(seed));
                    assert_eq!(topology.machines(), machines);
                    let bound = shape.diameter(machines);
                    for from in topology.nodes() {
                        let deep = topology.eccentricity(from);
                        assert!(
                            deep.is_some_and(|deep| deep <= bound),
                            "{shape:?} {machines}: {deep:?} > {bound}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn who_is_not_reached_is_noticed() {
        let topology = Topology::from_edges(3, vec![(0, 1), (1, 2), (2, 1)]);
        assert_eq!(topology.eccentricity(NodeId(0)), Some(2));
        assert_eq!(topology.eccentricity(NodeId(2)), None);
    }
}
