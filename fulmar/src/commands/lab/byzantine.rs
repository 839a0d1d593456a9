//! `fulmar lab byzantine`.

use crate::commands::bench::{or_nothing, print, with_progress};
use crate::files::Plot;
use clap::Args;
use fulmar_bench::lab::byzantine::{self, Growth, Options, Report, Rounds};
use fulmar_bench::machine;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar lab byzantine --plot byzantine.svg
  fulmar lab byzantine --n 4,7,10 --runs 1000 --json
  fulmar lab byzantine --explain --n 4";

/// Options of `fulmar lab byzantine`.
#[derive(Args)]
pub struct Byzantine {
    /// Numbers of processes, with commas between them; 4, 7, … 31 if none is given
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u8).range(4..=31))]
    n: Vec<u8>,
    /// Adversaries for each number of processes and of those that lie
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    runs: u64,
    /// Where chance comes from
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Shows one execution instead, round by round; at most 10 processes
    #[arg(long, conflicts_with_all = ["runs", "json", "plot"])]
    explain: bool,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
    /// Where to draw rounds, trees, messages and computation
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Runs the protocols against adversaries and prints what comes of it.
pub(super) fn run(paper: &Byzantine) -> Result<(), Box<dyn Error>> {
    let mut options = Options { runs: paper.runs, seed: paper.seed, ..Options::default() };
    if !paper.n.is_empty() {
        options.sizes = paper.n.iter().map(|&n| n.into()).collect();
        options.sizes.sort_unstable();
        options.sizes.dedup();
    }
    if paper.explain {
        if options.sizes[0] > 10 {
            return Err("--explain shows at most 10 processes".into());
        }
        print!("{}", byzantine::explain(options.sizes[0]));
        return Ok(());
    }
    let plot = Plot::at(paper.plot.as_ref())?;
    let report = with_progress(|begin| byzantine::run(&options, begin))?;
    plot.draw(|| byzantine::plot(&report))?;
    if paper.json {
        print(true, &report.growth, &[], String::new)?;
    }
    print(paper.json, &report.rounds, &report.figures, || tables(&report, &machine()))?;
    if report.failures.is_empty() { Ok(()) } else { Err(report.failures.concat().into()) }
}

/// What came of it, for people. Writing to a string does not fail.
fn tables(report: &Report, machine: &str) -> String {
    let mut text = format!(
        "On {machine}, beside Abraham and Dolev, STOC 2015. All but the time is counted: it is the same on any machine.\n\n\
         Last round of a correct process, and in brackets what is promised\n{:>3} {:>3}",
        "n", "t"
    );
    let most = report.rounds.iter().map(|rounds| rounds.f).max().unwrap_or(0);
    for f in 0..=most {
        let _ = write!(text, " {:>8}", format!("f = {f}"));
    }
    for (inputs, unanimous) in [("any", false), ("equal", true)] {
        let _ = writeln!(text, "\n{inputs} inputs");
        let of_kind: Vec<&Rounds> = report.rounds.iter().filter(|row| row.unanimous == unanimous).collect();
        for rows in of_kind.chunk_by(|one, next| one.n == next.n) {
            let _ = write!(text, "{:>3} {:>3}", rows[0].n, rows[0].t);
            rows.iter().for_each(|row| {
                let _ = write!(text, " {:>8}", format!("{} ({})", row.rounds, row.bound));
            });
            let _ = writeln!(text);
        }
    }
    let _ = writeln!(
        text,
        "\nWhat a correct process takes at most; with ~ reckoned, not run\n{:<24} {:>3} {:>3} {:>7} {:>12} {:>16} {:>16}",
        "", "n", "t", "rounds", "nodes", "bytes of message", "µs of process"
    );
    for Growth { protocol, n, t, rounds, nodes, message, microseconds } in &report.growth {
        let number = |value: &f64| {
            let mark = if microseconds.is_some() { "" } else { "~" };
            if *value < 1e9 { format!("{mark}{value}") } else { format!("{mark}{value:.2e}") }
        };
        let _ = writeln!(
            text,
            "{protocol:<24} {n:>3} {t:>3} {rounds:>7} {:>12} {:>16} {:>16}",
            number(nodes),
            number(message),
            or_nothing(*microseconds, 0)
        );
    }
    let _ = writeln!(text);
    for figure in &report.figures {
        let _ = writeln!(text, "{:<30} {:>8.2} {}", figure.figure, figure.value, figure.unit);
    }
    text
}
