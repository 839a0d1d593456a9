//! `fulmar bench ycsb`.

use clap::{Args, ValueEnum};
use fulmar_bench::machine;
use fulmar_bench::ycsb::{self, Distribution, Length, Measured, Options, Peer, Report, Workload};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar bench ycsb --workloads a,b,c --clients 1,16
  fulmar bench ycsb --peers redis,postgres --json --plot ycsb.svg

Workloads: a to f are YCSB's; update: updates only; insert: insertions into one
table, whose keys the database chooses; inserts: each client into a table of its own.";

/// Options of `fulmar bench ycsb`.
#[derive(Args)]
pub struct Ycsb {
    /// Loads, with commas between them; all of them if none is given
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// How operations are spread over records
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…", default_value = "uniform,zipfian")]
    distributions: Vec<Spread>,
    /// Fulmar's interfaces: SQL, which is always measured, and the trees below it
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…", default_value = "sql,kv")]
    apis: Vec<Api>,
    /// Records to begin with
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..))]
    records: u32,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "64,1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    value_bytes: Vec<u32>,
    /// Clients, each with a connection and one operation at a time
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,16", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Vec<u32>,
    /// Length of a measurement
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = super::seconds)]
    seconds: f64,
    /// Length of a measurement in operations, instead of seconds
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    operations: Option<u64>,
    /// How often to measure all systems in turn
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Systems to compare with: installed with apt-get if missing, and started for the benchmark alone
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    peers: Vec<Rival>,
    /// An rqlite that runs already, to compare with; the tables `ycsb_…` in it are replaced
    #[arg(long, value_name = "URL")]
    rqlite: Option<String>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
    /// Where to draw latency and throughput
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spread {
    Uniform,
    Zipfian,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Api {
    Sql,
    Kv,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    Redis,
    Postgres,
}

/// Runs the benchmark and prints what it finds.
pub(super) fn run(ycsb: &Ycsb) -> Result<(), Box<dyn std::error::Error>> {
    let options = options(ycsb)?;
    let report = super::with_progress(|begin| ycsb::run(&options, begin))??;
    if let Some(path) = &ycsb.plot {
        ycsb::plot(&report.measured, path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    super::print(ycsb.json, &report.measured, &report.figures, || tables(&report, &machine()))?;
    Ok(())
}

fn options(ycsb: &Ycsb) -> Result<Options, Box<dyn std::error::Error>> {
    let distribution = |spread: &Spread| match spread {
        Spread::Uniform => Distribution::Uniform,
        Spread::Zipfian => Distribution::Zipfian,
    };
    let peer = |rival: &Rival| match rival {
        Rival::Redis => Peer::Redis,
        Rival::Postgres => Peer::Postgres,
    };
    Ok(Options {
        program: std::env::current_exe()?,
        workloads: if ycsb.workloads.is_empty() { Workload::ALL.into() } else { ycsb.workloads.clone() },
        distributions: ycsb.distributions.iter().map(distribution).collect(),
        key_value: ycsb.apis.contains(&Api::Kv),
        records: ycsb.records.into(),
        value_bytes: ycsb.value_bytes.iter().map(|&bytes| bytes as usize).collect(),
        clients: ycsb.clients.clone(),
        length: match ycsb.operations {
            Some(operations) => Length::Operations(operations),
            None => Length::Time(Duration::from_secs_f64(ycsb.seconds)),
        },
        runs: usize::from(ycsb.runs),
        peers: ycsb.peers.iter().map(peer).collect(),
        rqlite: ycsb.rqlite.clone(),
    })
}

/// What was measured, for people.
fn tables(report: &Report, machine: &str) -> String {
    let mut text = format!("On {machine}; in memory, on loopback. Latencies in microseconds.\n");
    let mut last = None;
    for m in &report.measured {
        let load = (m.workload(), m.distribution, m.clients, m.value_bytes);
        if last.replace(load) != Some(load) {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "\n{}: {}; {}, {} {}, values of {} bytes\n{:<20} {:>12} {:>9} {:>9} {:>9} {:>9} {:>7}",
                m.workload(),
                m.workload().describe(),
                m.distribution,
                m.clients,
                if m.clients == 1 { "client" } else { "clients" },
                m.value_bytes,
                "",
                "operations/s",
                "50 %",
                "99 %",
                "99.9 %",
                "max",
                "failed"
            );
        }
        row(&mut text, m);
    }
    text + &super::figures(&report.figures)
}

fn row(text: &mut String, m: &Measured) {
    let _ = writeln!(
        text,
        "{:<20} {:>12.0} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>7}",
        m.system,
        m.operations_per_second,
        m.p50_microseconds,
        m.p99_microseconds,
        m.p999_microseconds,
        m.max_microseconds,
        m.failed
    );
    if let Some(why) = &m.failure {
        let _ = writeln!(text, "    the first that failed: {why}");
    }
}
