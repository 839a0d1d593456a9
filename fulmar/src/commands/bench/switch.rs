//! `fulmar bench switch`.

use clap::{Args, ValueEnum};
use fulmar_bench::machine;
use fulmar_bench::switch::{self, Options, Report};
use std::fmt::Write as _;
use std::time::Duration;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "Examples:
  fulmar bench switch --peers ovs
  fulmar bench switch --peers ovs --only small_packets --runs 9 --json";

/// Options of `fulmar bench switch`.
#[derive(Args)]
pub struct Switch {
    /// Who is measured beside it, installed if missing
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    peers: Vec<Peer>,
    /// How often to measure each in turn
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Length of a measurement
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS", value_parser = super::seconds)]
    seconds: f64,
    /// Only figures whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Open vSwitch's datapath in user space, on packet sockets and on XDP sockets
    Ovs,
}

/// Runs the benchmark and prints what it finds.
pub(super) fn run(switch: &Switch) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options {
        program: std::env::current_exe()?,
        with_open_vswitch: switch.peers.contains(&Peer::Ovs),
        runs: switch.runs.into(),
        span: Duration::from_secs_f64(switch.seconds),
        only: switch.only.clone(),
    };
    let report = super::with_progress(|begin| switch::run(&options, begin))??;
    super::found(switch.only.as_deref(), report.measured.is_empty() && report.figures.is_empty())?;
    super::print(switch.json, &report.measured, &report.figures, || tables(&report))?;
    Ok(())
}

/// What was measured, for people. Writing to a string does not fail.
fn tables(report: &Report) -> String {
    let mut text = format!("On {}.\n", machine());
    for m in &report.measured {
        let _ = writeln!(
            text,
            "{:<24} {:<22} {:>12.3e} {:>12.3e} {}",
            m.measured, m.system, m.median, m.best, m.unit
        );
    }
    text.push_str(&super::figures(&report.figures));
    text
}
