//! `fulmar lab speculative-paxos`.

use crate::commands::bench::{or_nothing, print, seconds, with_progress};
use crate::files::Plot;
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use fulmar_bench::lab::speculative_paxos::{self, Options, Part, Point, Report, Testbed};
use fulmar_bench::machine;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar lab speculative-paxos --plot figures.svg
  fulmar lab speculative-paxos --only table1,figure9 --json
  fulmar lab speculative-paxos --only figure8 --loopback --seconds 1";

/// Options of `fulmar lab speculative-paxos`.
#[derive(Args)]
pub struct SpeculativePaxos {
    /// Tables and figures, with commas between them; all of them if none is given
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<Wanted>,
    /// How often what chance or the machine decides is measured
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Figures 8 and 9 on loopback UDP as well, where all replicas share the cores of this machine
    #[arg(long)]
    loopback: bool,
    /// Length of a measurement on loopback
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS", value_parser = seconds, requires = "loopback")]
    seconds: f64,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
    /// Where to draw figures 8 to 10
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// What can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// Message delays and messages of a request
    Table1,
    /// Latency by throughput
    Figure8,
    /// Throughput by reordering
    Figure9,
    /// Lines of code and time that applications need to roll back
    Table2,
    /// Transactions of Retwis on the key-value store, within 10 ms
    Figure10,
}

impl From<Wanted> for Part {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Table1 => Self::Table1,
            Wanted::Figure8 => Self::Figure8,
            Wanted::Figure9 => Self::Figure9,
            Wanted::Table2 => Self::Table2,
            Wanted::Figure10 => Self::Figure10,
        }
    }
}

/// Runs the paper's experiments and prints what comes of them.
pub(super) fn run(paper: &SpeculativePaxos) -> Result<(), Box<dyn Error>> {
    let mut options = Options {
        runs: paper.runs.into(),
        loopback: paper.loopback.then(|| Duration::from_secs_f64(paper.seconds)),
        ..Options::default()
    };
    if !paper.only.is_empty() {
        options.parts = paper.only.iter().copied().map(Part::from).collect();
    }
    let drawn = [Part::Figure8, Part::Figure9, Part::Figure10];
    let draws = drawn.iter().any(|part| options.parts.contains(part));
    if paper.plot.is_some() && !draws {
        let why = "--plot draws figures 8 to 10, and --only leaves them out";
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{why}\n")).exit();
    }
    let plot = Plot::at(paper.plot.as_ref())?;
    let report = with_progress(|begin| speculative_paxos::run(&options, begin))??;
    plot.draw(|| speculative_paxos::plot(&report.points))?;
    print(paper.json, &report.points, &report.figures, || tables(&report, &machine()))?;
    Ok(())
}

/// What came of it, for people. Writing to a string does not fail.
fn tables(report: &Report, machine: &str) -> String {
    let mut text = format!("On {machine}, beside Ports and others, NSDI 2015.\n");
    costs(&mut text, report);
    figure8(&mut text, report);
    figure9(&mut text, report);
    applications(&mut text, report);
    figure10(&mut text, report);
    compared(&mut text, report);
    text
}

/// What the figures come down to.
fn compared(text: &mut String, report: &Report) {
    if report.points.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{:<80} {:>7} {:>7}", "", "here", "paper");
    for f in report.figures.iter().filter(|figure| figure.figure.contains(".figure")) {
        let _ = writeln!(text, "{:<80} {:>7.2} {:>7}", f.figure, f.value, or_nothing(f.paper, 2));
    }
}

fn costs(text: &mut String, report: &Report) {
    if report.costs.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\nTable 1: what a request costs, counted in the simulator; batches of 10, and 10 requests from one\n\
         synchronisation to the next. In brackets: the paper.\n\n{:<24} {:>8} {:>16} {:>16} {:>20}",
        "", "replicas", "message delays", "messages", "at busiest replica"
    );
    for cost in &report.costs {
        let columns = [cost.delays, cost.messages, cost.bottleneck];
        let paper = |column: usize| cost.paper.map(|paper| paper[column]);
        let [delays, messages, busiest] = [0, 1, 2].map(|column| {
            let theirs = paper(column).map_or_else(|| "(-)".into(), |paper| format!("({paper})"));
            format!("{} {theirs:>6}", columns[column])
        });
        let _ = writeln!(
            text,
            "{:<24} {:>8} {delays:>16} {messages:>16} {busiest:>20}",
            cost.mode.name(),
            cost.replicas
        );
    }
}

/// A row for each place along the figure, with its protocols side by side.
fn rows<K: PartialEq + Copy>(
    text: &mut String,
    report: &Report,
    part: Part,
    (title, along): (&str, &str),
    key: impl Fn(&Point) -> K,
    cell: impl Fn(&Point) -> String,
    show: impl Fn(K) -> String,
) {
    for (testbed, place) in [(Testbed::Simulator, "simulator"), (Testbed::Loopback, "loopback")] {
        let points: Vec<_> =
            report.points.iter().filter(|p| p.part() == part && p.testbed == testbed).collect();
        let Some(first) = points.first() else { continue };
        let _ = write!(text, "\n{title} ({place})\n\n{along:>9}");
        let of_first = points.iter().filter(|point| key(point) == key(first));
        of_first.for_each(|point| {
            let _ = write!(text, " {:>22}", point.protocol);
        });
        let mut last = None;
        for point in &points {
            if last.replace(key(point)) != Some(key(point)) {
                let _ = write!(text, "\n{:>9}", show(key(point)));
            }
            let _ = write!(text, " {:>22}", cell(point));
        }
        let _ = writeln!(text);
    }
}

fn figure8(text: &mut String, report: &Report) {
    rows(
        text,
        report,
        Part::Figure8,
        ("Figure 8: operations a second, and median latency in microseconds", "clients"),
        |point| point.clients,
        |point| format!("{:.0} {:>8.1}", point.operations_per_second, point.p50_microseconds),
        |clients| clients.to_string(),
    );
}

fn figure9(text: &mut String, report: &Report) {
    rows(
        text,
        report,
        Part::Figure9,
        (
            "Figure 9: operations a second of 20 clients, by messages to replicas that are overtaken",
            "overtaken",
        ),
        |point| point.reorder_percent,
        |point| format!("{:.0}", point.operations_per_second),
        |percent| format!("{percent} %"),
    );
}

fn figure10(text: &mut String, report: &Report) {
    rows(
        text,
        report,
        Part::Figure10,
        (
            "Figure 10: transactions of Retwis a second on the key-value store, and 99th percentile of latency\n\
             in milliseconds; up to 10 of them count",
            "clients",
        ),
        |point| point.clients,
        |point| format!("{:.0} {:>8.2}", point.operations_per_second, point.p99_microseconds / 1e3),
        |clients| clients.to_string(),
    );
}

fn applications(text: &mut String, report: &Report) {
    if report.applications.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\nTable 2: lines of code, those for rollback, and nanoseconds an operation. In brackets: the paper.\n\n\
         {:<24} {:>14} {:>14} {:>14} {:>14}",
        "", "lines", "for rollback", "to execute", "to roll back"
    );
    for application in &report.applications {
        let beside = |ours: usize, theirs: Option<f64>| {
            let theirs = theirs.map_or_else(|| "(-)".into(), |paper| format!("({paper})"));
            format!("{ours} {theirs:>6}")
        };
        let time = application.nanoseconds();
        let _ = writeln!(
            text,
            "{:<24} {:>14} {:>14} {:>14} {:>14}",
            application.name,
            beside(application.lines, application.paper.map(|paper| paper.0)),
            beside(application.rollback_lines, application.paper.map(|paper| paper.1)),
            or_nothing(time.map(|time| time.0), 0),
            or_nothing(time.map(|time| time.1), 0)
        );
    }
}
