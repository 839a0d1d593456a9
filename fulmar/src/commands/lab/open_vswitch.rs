//! `fulmar lab open-vswitch`.

use crate::commands::bench::{print, with_progress};
use crate::files::Plot;
use clap::Args;
use fulmar_bench::lab::open_vswitch::{self, Options, Report, Row};
use fulmar_bench::machine;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar lab open-vswitch --plot figure8.svg
  fulmar lab open-vswitch --transactions 60000 --json";

/// Options of `fulmar lab open-vswitch`.
#[derive(Args)]
pub struct OpenVswitch {
    /// Transactions to each of three destinations, for tables 1 and 2
    #[arg(long, default_value_t = 15_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    transactions: u32,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
    /// Where to draw figure 8
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Runs the paper's experiments and prints what comes of them.
pub(super) fn run(paper: &OpenVswitch) -> Result<(), Box<dyn Error>> {
    let transactions = usize::try_from(paper.transactions)?;
    let options = Options { transactions, ..Options::default() };
    let plot = Plot::at(paper.plot.as_ref())?;
    let report = with_progress(|begin| open_vswitch::run(&options, begin))?;
    plot.draw(|| open_vswitch::plot(&report.points))?;
    if paper.json {
        print(true, &report.points, &[], String::new)?;
    }
    print(paper.json, &report.rows, &[], || tables(&report, &machine()))?;
    Ok(())
}

/// What came of it, for people. Writing to a string does not fail.
fn tables(report: &Report, machine: &str) -> String {
    let mut text = format!(
        "On {machine}, beside Pfaff and others, NSDI 2015. The switch is in memory: packets come from nowhere and go nowhere.\n\
         In brackets: the paper, with kernels, hosts and wires.\n\n\
         Table 1\n{:<22} {:>18} {:>24} {:>12}\n",
        "optimisations", "ktps", "flows", "masks"
    );
    let of = |row: &Row, column: usize| {
        row.paper.get(column).map_or_else(|| "(-)".into(), |paper| format!("({paper})"))
    };
    for row in report.rows.iter().filter(|row| row.table == 1) {
        let _ = writeln!(
            text,
            "{:<22} {:>10.0} {:>7} {:>12} {:>11} {:>6} {:>5}",
            row.optimisations,
            row.kilotransactions,
            of(row, 0),
            row.flows,
            of(row, 1),
            row.masks,
            of(row, 2)
        );
    }
    let _ = writeln!(
        text,
        "\nTable 2\n{:<12} {:<14} {:>18} {:>18}",
        "microflows", "optimisations", "ktps", "tuples/packet"
    );
    for row in report.rows.iter().filter(|row| row.table == 2) {
        let _ = writeln!(
            text,
            "{:<12} {:<14} {:>10.0} {:>7} {:>10.2} {:>7}",
            if row.microflows { "enabled" } else { "disabled" },
            row.optimisations,
            row.kilotransactions,
            of(row, 0),
            row.tuples,
            of(row, 1)
        );
    }
    let _ = writeln!(
        text,
        "\nFigure 8\n{:>8} {:>22} {:>22}",
        "tuples", "megaflows, Mpps", "microflows too, Mpps"
    );
    for pair in report.points.chunks(2) {
        if let [without, with] = pair {
            let _ = writeln!(
                text,
                "{:>8.1} {:>22.2} {:>22.2}",
                without.tuples, without.megapackets, with.megapackets
            );
        }
    }
    text
}
