//! `fulmar lab discovery`.

use crate::commands::bench::{print, with_progress};
use crate::files::Plot;
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use fulmar_bench::lab::discovery::{self, Options, Report, Row, Shape};
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar lab discovery --to 14 --seeds 5
  fulmar lab discovery --topology tree,data-center --plot discovery.svg
  fulmar lab discovery --explain --n 16";

/// More are not worked through one by one.
const EXPLAINED: u32 = 256;

/// Options of `fulmar lab discovery`.
#[derive(Args)]
pub struct Discovery {
    /// The fewest machines, as a power of two; each step is four times as many
    #[arg(long, default_value_t = 8, value_name = "LOG2", value_parser = clap::value_parser!(u32).range(1..=20))]
    from: u32,
    /// The most machines, as a power of two
    #[arg(long, default_value_t = 20, value_name = "LOG2", value_parser = clap::value_parser!(u32).range(1..=20))]
    to: u32,
    /// Topologies, with commas between them; all of them if none is given
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    topology: Vec<Wanted>,
    /// How often each is run, with other chance
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Where to draw rounds and messages
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draws one run of one topology (random-out if none is given), round by round
    #[arg(long, conflicts_with_all = ["from", "to", "json", "plot", "seeds"])]
    explain: bool,
    /// Machines to explain
    #[arg(long, default_value_t = 16, value_name = "N", requires = "explain", value_parser = clap::value_parser!(u32).range(1..=i64::from(EXPLAINED)))]
    n: u32,
}

/// What can be asked for.
#[derive(Clone, Copy, ValueEnum)]
enum Wanted {
    /// Each knows the next and the one before
    Path,
    /// A path whose ends know each other
    Ring,
    /// A balanced binary tree
    Tree,
    /// One knows all, and all know that one
    Star,
    /// Each knows the next in a random order, and two at random
    RandomOut,
    /// Newcomers know two, whom many know
    PowerLaw,
    /// Three random rings
    Expander,
    /// Racks of 16, in rows of 16
    DataCenter,
}

impl From<Wanted> for Shape {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Path => Self::Path,
            Wanted::Ring => Self::Ring,
            Wanted::Tree => Self::Tree,
            Wanted::Star => Self::Star,
            Wanted::RandomOut => Self::RandomOut,
            Wanted::PowerLaw => Self::PowerLaw,
            Wanted::Expander => Self::Expander,
            Wanted::DataCenter => Self::DataCenter,
        }
    }
}

/// Runs what is asked for and prints what comes of it.
pub(super) fn run(paper: &Discovery) -> Result<(), Box<dyn Error>> {
    let mut asked = paper.topology.iter().copied().map(Shape::from);
    if paper.explain {
        let shape = asked.next_back().unwrap_or(Shape::RandomOut);
        print!("{}", discovery::explain(shape, usize::try_from(paper.n)?, 0)?);
        return Ok(());
    }
    if paper.from > paper.to {
        let why = format!("--from {} is more than --to {}", paper.from, paper.to);
        clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")).exit();
    }
    let mut options = Options {
        powers: (paper.from..=paper.to).step_by(2).collect(),
        seeds: paper.seeds,
        ..Options::default()
    };
    if !paper.topology.is_empty() {
        options.shapes = asked.collect();
    }
    let plot = Plot::at(paper.plot.as_ref())?;
    let report = with_progress(|begin| discovery::run(&options, begin))??;
    plot.draw(|| discovery::plot(&report.rows))?;
    print(paper.json, &report.rows, &report.figures, || table(&report))?;
    Ok(())
}

/// What came of it, for people. Writing to a string does not fail.
fn table(report: &Report) -> String {
    let mut text = format!(
        "Counts until every machine knew all: medians of the runs, and in brackets the fewest and the most rounds.\n\n\
         {:<12} {:>8} {:<20} {:>16} {:>14} {:>14} {:>12}\n",
        "topology", "machines", "algorithm", "rounds", "messages/node", "most of a node", "bits/node"
    );
    let mut last = None;
    for row in &report.rows {
        let Row { topology, machines, algorithm, rounds, .. } = row;
        let is_next = last.replace((*topology, *machines)) != Some((*topology, *machines));
        let place = if is_next { (*topology, machines.to_string()) } else { Default::default() };
        let [fewest, most] = row.rounds_between;
        let _ = writeln!(
            text,
            "{:<12} {:>8} {algorithm:<20} {:>16} {:>14.2} {:>14.0} {:>12.3e}",
            place.0,
            place.1,
            format!("{rounds} ({fewest}-{most})"),
            row.messages_per_node,
            row.most_messages,
            row.bits_per_node
        );
    }
    for figure in report.figures.iter().filter(|figure| figure.unit == "ratio") {
        let _ = writeln!(text, "\n{} {:.2}: {}", figure.figure, figure.value, figure.note);
    }
    text
}
