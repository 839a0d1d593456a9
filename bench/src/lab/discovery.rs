//! Resource discovery (Haeupler and Malkhi, PODC 2015): what Theorem 1 says, at real sizes, beside what was there before.
//!
//! All that is measured is counted, and the same on every machine.

mod plot;

pub use fulmar_discovery::{Algorithm, Shape, explain};
pub use plot::plot;

use crate::Figure;
use crate::figure::median;
use fulmar_discovery::{Counts, Error, Setting};
use serde::Serialize;

/// From so many machines on, 2 to the power of this, messages per machine are to stay within a constant.
const FROM: u32 = 10;
/// What the largest number of messages per machine may be of the smallest.
const SPREAD: f64 = 2.0;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of machines, as powers of two, in the order in which they come.
    pub powers: Vec<u32>,
    /// How the networks look.
    pub shapes: Vec<Shape>,
    /// How often each is run, with chance of its own; at least once.
    pub seeds: u64,
}

impl Default for Options {
    /// As far as this goes in an hour or so.
    fn default() -> Self {
        Self { powers: (8..=20).step_by(2).collect(), shapes: Shape::ALL.into(), seeds: 20 }
    }
}

/// What an algorithm took for networks of one shape and size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The shape of the networks.
    pub topology: &'static str,
    /// How many machines they have.
    pub machines: usize,
    /// Who ran.
    pub algorithm: &'static str,
    /// How often.
    pub runs: usize,
    /// Rounds until all knew all: the median.
    pub rounds: f64,
    /// The fewest and the most.
    pub rounds_between: [f64; 2],
    /// Messages of all machines, for each of them: the median.
    pub messages_per_node: f64,
    /// Messages of the machine that sent the most: the median.
    pub most_messages: f64,
    /// Bits in messages, for each machine: the median.
    pub bits_per_node: f64,
    #[serde(skip)]
    pub(crate) shape: Shape,
    #[serde(skip)]
    pub(crate) by: Algorithm,
    #[serde(skip)]
    counts: Vec<Counts>,
}

/// All that was run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By topology, number of machines, and algorithm.
    pub rows: Vec<Row>,
    /// What has a name of that.
    pub figures: Vec<Figure>,
}

/// The largest power of two of machines for which an algorithm fits: flooding sends n² messages of n bits, and Name-Dropper's machines
/// know sets of their own, which are n² bits.
pub const fn largest(algorithm: Algorithm) -> u32 {
    match algorithm {
        Algorithm::Flooding => 10,
        Algorithm::NameDropper => 14,
        Algorithm::Sublogarithmic | Algorithm::LawSiu | Algorithm::KuttenPelegVishkin => u32::MAX,
    }
}

/// Runs all that is asked for; `begin` hears how many of how many runs are done, and what comes next.
///
/// # Errors
/// If a machine does not come to know all, or calls whom it does not know.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> Result<Report, Error> {
    let of_size = |power: u32| Algorithm::ALL.into_iter().filter(move |by| power <= largest(*by));
    let all: usize = options.powers.iter().map(|&power| of_size(power).count() * options.shapes.len()).sum();
    let mut rows = Vec::new();
    for &shape in &options.shapes {
        for &power in &options.powers {
            for by in of_size(power) {
                begin(rows.len(), all, &format!("{}, 2^{power} machines, {}", shape.name(), by.name()));
                let run = |seed| Setting::new(shape, 1 << power, seed).run(by);
                let counts = (0..options.seeds).map(run).collect::<Result<Vec<_>, _>>()?;
                rows.push(row(shape, 1 << power, by, counts));
            }
        }
    }
    let figures = figures(&rows);
    Ok(Report { rows, figures })
}

fn row(shape: Shape, machines: usize, by: Algorithm, counts: Vec<Counts>) -> Row {
    let of = |value: fn(&Counts) -> u64| counts.iter().map(|counts| value(counts) as f64).collect::<Vec<_>>();
    let rounds = of(|counts| counts.rounds.into());
    let fewest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rounds.iter().copied().fold(0.0, f64::max);
    Row {
        topology: shape.name(),
        machines,
        algorithm: by.name(),
        runs: counts.len(),
        rounds: median(&rounds),
        rounds_between: [fewest, most],
        messages_per_node: median(&of(|counts| counts.messages)) / machines as f64,
        most_messages: median(&of(|counts| counts.most_messages)),
        bits_per_node: median(&of(|counts| counts.bits)) / machines as f64,
        shape,
        by,
        counts,
    }
}

fn figures(rows: &[Row]) -> Vec<Figure> {
    let ours: Vec<&Row> = rows.iter().filter(|row| row.by == Algorithm::Sublogarithmic).collect();
    let spreads = Shape::ALL.into_iter().filter(|shape| shape.is_shallow()).filter_map(|shape| {
        let large = ours.iter().filter(|row| row.shape == shape && row.machines >= 1 << FROM);
        let messages: Vec<f64> = large.map(|row| row.messages_per_node).collect();
        let least = messages.iter().copied().fold(f64::INFINITY, f64::min);
        let most = messages.iter().copied().fold(0.0, f64::max);
        (messages.len() > 1).then_some(most / least)
    });
    let spreads: Vec<f64> = spreads.collect();
    let spread = spreads.iter().copied().fold(0.0, f64::max);
    let note = "messages of all machines for each: most for any n from 2^10 on by fewest; the worst of the topologies of \
                polylogarithmic diameter, which are what runs counts";
    let spread = (!spreads.is_empty()).then(|| Figure {
        value: spread,
        target: Some(SPREAD),
        note: note.into(),
        ..Figure::of("discovery.messages_per_node_spread", "ratio", "lower", &spreads)
    });
    let rounds = ours.iter().map(|row| {
        let runs: Vec<f64> = row.counts.iter().map(|counts| counts.rounds.into()).collect();
        let name = format!("discovery.rounds.{}.{}", row.topology, row.machines);
        let of_others = rows.iter().filter(|other| {
            (other.shape, other.machines) == (row.shape, row.machines)
                && !matches!(other.by, Algorithm::Sublogarithmic | Algorithm::Flooding)
        });
        let best = of_others.min_by(|a, b| a.rounds.total_cmp(&b.rounds));
        let peer = best.map(|best| format!("{}: {} rounds", best.algorithm, best.rounds)).unwrap_or_default();
        let note = "median until every machine knew all; beside the fewest of the others but flooding".into();
        Figure { peer, note, ..Figure::of(name, "rounds", "lower", &runs) }
    });
    spread.into_iter().chain(rounds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_has_rows_and_figures() {
        let options = Options { powers: vec![4, 10], shapes: vec![Shape::Star, Shape::Tree], seeds: 2 };
        let mut heard = Vec::new();
        let report = run(&options, |done, all, _| heard.push((done, all))).expect("all come to know all");
        assert_eq!(heard, (0..20).map(|done| (done, 20)).collect::<Vec<_>>());
        assert_eq!(report.rows.len(), 20);
        let names: Vec<&str> = report.figures.iter().map(|figure| figure.figure.as_str()).collect();
        let rounds =
            ["star.16", "star.1024", "tree.16", "tree.1024"].map(|name| format!("discovery.rounds.{name}"));
        // One size of at least 2^10 has no spread.
        assert_eq!(names, rounds);
        assert!(plot(&report.rows).contains("Name-Dropper"));
    }

    #[test]
    fn the_spread_is_that_of_the_worst_topology() {
        let row = |shape, power: u32, messages| {
            let counts = Counts { rounds: 5, messages, most_messages: 9, addresses: 0, bits: 0 };
            row(shape, 1 << power, Algorithm::Sublogarithmic, vec![counts])
        };
        let rows = [
            row(Shape::Star, 8, 256 * 9),
            row(Shape::Star, 10, 1024 * 4),
            row(Shape::Star, 12, 4096 * 5),
            row(Shape::Tree, 10, 1024 * 6),
            row(Shape::Tree, 12, 4096 * 4),
            row(Shape::Path, 10, 1024),
            row(Shape::Path, 12, 4096 * 8),
        ];
        let spread = &figures(&rows)[0];
        assert_eq!((spread.figure.as_str(), spread.value), ("discovery.messages_per_node_spread", 1.5));
    }
}
