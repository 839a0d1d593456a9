//! What an adversary does, as data.

use crate::Processes;

/// What is agreed on among whom.
#[derive(Clone, Debug)]
pub struct Setting<V> {
    /// How many processes, at most 64.
    pub n: usize,
    /// How many of them may lie.
    pub t: usize,
    /// What they may begin with; the first is the default.
    pub values: Vec<V>,
    /// How many rounds a plan is made for.
    pub rounds: usize,
}

impl<V> Setting<V> {
    /// As many may lie as any protocol can bear: ⌊(n − 1)/3⌋; plans go on for t + 1 rounds.
    pub fn optimal(n: usize, values: Vec<V>) -> Self {
        let t = (n - 1) / 3;
        Self { n, t, values, rounds: t + 1 }
    }
}

/// What everybody begins with, who lies, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<V> {
    /// By process; that of a process that lies is its first face's.
    pub inputs: Vec<V>,
    /// Who lies, in order.
    pub liars: Vec<Liar<V>>,
    /// What the chance in lies comes from.
    pub seed: u64,
}

/// A process that lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liar<V> {
    /// Which.
    pub process: u8,
    /// By round, the first at the front; later ones, and receivers for whom no act is meant, hear the truth of the first face.
    pub acts: Vec<Vec<Act<V>>>,
}

/// What is done to whom in a round. All for whom one act is meant get the same message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act<V> {
    /// Those that are not among earlier acts'.
    pub targets: Processes,
    /// What they get.
    pub deed: Deed<V>,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed<V> {
    /// Nothing.
    Silent,
    /// What a correct process would send that began with this.
    Face(V),
    /// What the first face would, but for this.
    Lie(Lie<V>),
    /// That of the first face, with accusations.
    Accuse(Processes),
    /// That of the first face, with some bytes changed.
    Garble,
}

/// What is said of which nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lie<V> {
    /// Which.
    pub about: About,
    /// Instead of the truth.
    pub say: Say<V>,
    /// Of a hundred such nodes, about so many.
    pub percent: u64,
}

/// Nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// All.
    All,
    /// Those whose sequence ends with this process: what it has said.
    SaidBy(u8),
    /// Those whose sequence has this process in it.
    Through(u8),
    /// Those in whose sequence all lie, the only ones that correct processes cannot settle themselves.
    AmongLiars,
    /// Those whose sequence ends with a correct process.
    SaidByCorrect,
    /// Of one of the protocols that go on at the same time.
    Instance(usize),
}

/// Instead of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say<V> {
    /// This.
    Value(V),
    /// Another than the truth: the next of the setting's values.
    Next,
    /// One of the setting's values by chance, node by node.
    Any,
    /// Nothing.
    Nothing,
}

impl<V> Plan<V> {
    /// Who lies.
    pub fn lying(&self) -> Processes {
        self.liars.iter().map(|liar| liar.process).collect()
    }
}
