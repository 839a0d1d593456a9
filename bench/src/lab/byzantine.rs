//! Early-stopping Byzantine agreement (Abraham and Dolev, STOC 2015), beside exponential information gathering, phase king and
//! phase queen: rounds by how many lie, and what it takes by how many there are.
//!
//! The paper proves bounds and measures nothing. What is counted here is exact, and the same on every machine.

mod computation;
mod explain;
mod growth;
mod plot;

pub use explain::explain;
pub use growth::Growth;
pub use plot::plot;

use crate::Figure;
use fulmar_byzantine::Decision;
use fulmar_byzantine::adversaries::{Setting, Strategy};
use fulmar_byzantine::runs::{EarlyStopping, Protocol, Tally, hunt};
use fulmar_node::Random;
use serde::Serialize;

/// What processes begin with: the default, or one of two values.
const INPUTS: [Decision<u8>; 3] = [Decision::Bottom, Decision::Value(1), Decision::Value(2)];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of processes, at least 4, from few to many; as many may lie as can be borne, ⌊(n − 1)/3⌋.
    pub sizes: Vec<usize>,
    /// Adversaries for each size and number that lie, of all strategies.
    pub runs: u64,
    /// Plans that a search for large trees tries, for each size.
    pub tries: usize,
    /// Where chance comes from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { sizes: (1..=10).map(|t| 3 * t + 1).collect(), runs: 100, tries: 200, seed: 1 }
    }
}

/// The last round that a correct process took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rounds {
    /// How many processes.
    pub n: usize,
    /// How many of them may lie.
    pub t: usize,
    /// How many do.
    pub f: usize,
    /// Whether all correct ones begin with the same value.
    pub unanimous: bool,
    /// In all runs.
    pub rounds: u32,
    /// What was promised: min(f + 2, t + 1).
    pub bound: u32,
}

/// All that was run.
#[derive(Clone, Debug)]
pub struct Report {
    /// By t, then f.
    pub rounds: Vec<Rounds>,
    /// By protocol, then n.
    pub growth: Vec<Growth>,
    /// Executions that broke a promise, for people, each with its seed.
    pub failures: Vec<String>,
    /// The fitted exponent and its like.
    pub figures: Vec<Figure>,
}

/// Runs all; `begin` hears how many of how many sizes are done, and what comes next.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> Report {
    let protocol = EarlyStopping::<u8>::default();
    let mut tally = Tally::default();
    let mut report =
        Report { rounds: Vec::new(), growth: Vec::new(), failures: Vec::new(), figures: Vec::new() };
    for (done, &n) in options.sizes.iter().enumerate() {
        begin(done, options.sizes.len(), &format!("n = {n}"));
        let setting = Setting::optimal(n, INPUTS.into());
        report.rounds.extend(rounds(&protocol, &setting, options, &mut tally));
        hunt(&protocol, &setting, options.seed..options.seed + 1, options.tries, &mut tally);
    }
    report.growth = growth::all(options, &tally);
    report.failures = tally.failures.iter().map(ToString::to_string).collect();
    report.figures = figures(&report, &tally);
    report
}

/// The last round taken for each number that lies, with any inputs and with equal ones.
fn rounds(
    protocol: &EarlyStopping<u8>,
    setting: &Setting<Decision<u8>>,
    options: &Options,
    tally: &mut Tally<Decision<u8>>,
) -> Vec<Rounds> {
    let kinds = (0..=setting.t).flat_map(|f| [(f, false), (f, true)]);
    let of_kind = |(f, unanimous): (usize, bool)| {
        let mut own = Tally::default();
        for seed in options.seed..options.seed + options.runs {
            let mut random = Random::new(seed);
            let strategy = Strategy::any(&mut random);
            let mut plan = strategy.plan_of(setting, f, &mut random);
            if unanimous {
                let input = plan.inputs[0];
                plan.inputs.fill(input);
            }
            own.add(protocol, setting, seed, &format!("{strategy:?}, {f} lie"), &plan);
        }
        let rounds = own.rounds.values().copied().max().unwrap_or(0);
        let row =
            Rounds { n: setting.n, t: setting.t, f, unanimous, rounds, bound: protocol.bound(setting, f) };
        tally.join(own);
        row
    };
    kinds.map(of_kind).collect()
}

fn figures(report: &Report, tally: &Tally<Decision<u8>>) -> Vec<Figure> {
    let counted = format!("{} executions: every strategy, and a search for large trees", tally.runs);
    let figure = |name: &str, unit, value| Figure {
        note: counted.clone(),
        ..Figure::of(format!("byzantine.{name}"), unit, "lower", &[value])
    };
    let trees = report.growth.iter().filter(|growth| growth.protocol == growth::OURS);
    let trees: Vec<_> = trees.map(|growth| (growth.n as f64, growth.nodes)).collect();
    let exponent = growth::exponent(&trees).map(|exponent| figure("tree_exponent", "exponent", exponent));
    let violations = figure("violations", "executions", tally.failures.len() as f64);
    let over = figure("rounds_over_bound", "rounds", tally.rounds_over_bound.into());
    [violations, over].into_iter().chain(exponent).collect()
}
