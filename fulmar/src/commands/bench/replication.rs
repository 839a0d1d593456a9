//! `fulmar bench replication`.

use clap::{Args, ValueEnum};
use fulmar_bench::machine;
use fulmar_bench::replication::{self, Options, Report};
use std::fmt::Write as _;
use std::time::Duration;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar bench replication
  fulmar bench replication --clients 1,16 --runs 5 --json
  fulmar bench replication --clients 16 --peers etcd
  fulmar bench replication --clients 16 --reorder 0.001";

/// Options of `fulmar bench replication`.
#[derive(Args)]
pub struct Replication {
    /// Clients, each with one operation at a time; figures need 1 and 16
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,4,16", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: Vec<u32>,
    /// Length of a measurement
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = super::seconds)]
    seconds: f64,
    /// How often to measure all protocols in turn
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// How likely a datagram is dropped where a replica receives it
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    drop: f64,
    /// How likely those overtake it that have come by then
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = share)]
    reorder: f64,
    /// Systems to compare with: installed with apt-get if missing, and started for the benchmark alone
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    peers: Vec<Rival>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    Etcd,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().map_err(|error| error.to_string())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("expected 0 to 1".into()) }
}

/// Runs the benchmark and prints what it finds.
pub(super) fn run(replication: &Replication) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options {
        clients: replication.clients.clone(),
        length: Duration::from_secs_f64(replication.seconds),
        runs: usize::from(replication.runs),
        drop: replication.drop,
        reorder: replication.reorder,
        etcd: replication.peers.contains(&Rival::Etcd),
    };
    let report = super::with_progress(|begin| replication::run(&options, begin))??;
    super::print(replication.json, &report.measured, &report.figures, || tables(&report, &machine()))?;
    Ok(())
}

/// What was measured, for people.
fn tables(report: &Report, machine: &str) -> String {
    let mut text = format!(
        "On {machine}; in memory, on loopback, three replicas. Latencies in microseconds.\n\n\
         {:<24} {:>7} {:>12} {:>9} {:>9}\n",
        "", "clients", "operations/s", "50 %", "99 %"
    );
    for m in &report.measured {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:<24} {:>7} {:>12.0} {:>9.1} {:>9.1}",
            m.measured, m.clients, m.operations_per_second, m.p50_microseconds, m.p99_microseconds
        );
    }
    text + &super::figures(&report.figures)
}
