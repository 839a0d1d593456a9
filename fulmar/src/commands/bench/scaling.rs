//! `fulmar bench scaling`.

use crate::files::Plot;
use clap::Args;
use fulmar_bench::scaling::{self, Measured, Options, Report, of_linear};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar bench scaling --plot scaling.svg
  fulmar bench scaling --servers 1,64 --clients 1024 --json";

/// Options of `fulmar bench scaling`.
#[derive(Args)]
pub struct Scaling {
    /// Servers: so many in turn
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u32).range(1..=64))]
    servers: Vec<u32>,
    /// Clients of each of these: so many in turn, and 16 for each server
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,4,16,64,256,1024", value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Vec<u32>,
    /// Length of a measurement, in virtual time; five times as long where not all records are alike
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    milliseconds: u16,
    /// From which all chance comes: the same seed gives the same figures
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32))]
    seed: u32,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
    /// Where to draw throughput
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Runs the benchmark and prints what it finds.
pub(super) fn run(scaling: &Scaling) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options {
        servers: scaling.servers.clone(),
        clients: scaling.clients.clone(),
        span: Duration::from_millis(scaling.milliseconds.into()),
        seed: scaling.seed.into(),
    };
    let plot = Plot::at(scaling.plot.as_ref())?;
    let report = super::with_progress(|begin| scaling::run(&options, begin))??;
    plot.draw(|| scaling::plot(&report.measured))?;
    super::print(scaling.json, &report.measured, &report.figures, || tables(&report, scaling.seed))?;
    Ok(())
}

/// What was measured, for people.
fn tables(report: &Report, seed: u32) -> String {
    let mut text = format!("YCSB B in the simulator, seed {seed}; latencies and times in microseconds.\n");
    let mut last = None;
    for m in &report.measured {
        if last.replace(m.servers) != Some(m.servers) {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "\n{:<10} {:>7} {:>12} {:>9} {:>8} {:>9} {:>7} {:>9} {:>9} {:>7} {:>7}",
                if m.servers == 1 { "1 server".into() } else { format!("{} servers", m.servers) },
                "clients",
                "operations/s",
                "of linear",
                "50 %",
                "99 %",
                "manager",
                "busiest",
                "clock",
                "again",
                "failed"
            );
        }
        row(&mut text, &report.measured, m);
    }
    let _ = writeln!(
        text,
        "\nOf linear: of so many times 1 server with 16 clients, where there are 16 for each server.\n\
         Manager: how busy the server is that keeps the clock; busiest: the busiest of the others.\n\
         Clock: how long a server waits for the time. Again: conflicts for each operation."
    );
    for f in &report.figures {
        let _ = writeln!(
            text,
            "\n{} {:.2} (target {}): {}\n    {}",
            f.figure,
            f.value,
            super::or_nothing(f.target, 2),
            f.peer,
            f.note
        );
    }
    text
}

fn row(text: &mut String, measured: &[Measured], m: &Measured) {
    let linear = of_linear(measured, m).filter(|_| m.is_proportional());
    let _ = writeln!(
        text,
        "{:<10} {:>7} {:>12.0} {:>9} {:>8.1} {:>9.1} {:>5.0} % {:>7.0} % {:>9} {:>7.2} {:>7}",
        m.spread,
        m.clients,
        m.operations_per_second,
        super::or_nothing(linear, 2),
        m.p50_microseconds,
        m.p99_microseconds,
        m.manager_busy * 100.0,
        m.busiest * 100.0,
        super::or_nothing(m.clock_microseconds, 1),
        m.repeated,
        m.failed
    );
    if let Some(why) = &m.failure {
        let _ = writeln!(text, "    the first that failed: {why}");
    }
}
