//! Speculative Paxos (Ports, Li, Liu, Sharma and Krishnamurthy, NSDI 2015): tables 1 and 2, figures 8 to 10.
//!
//! What the paper's testbed was is a simulator here, in which each replica has a processor of its own, as it had there: on one
//! machine all replicas share the cores, and what would count is the work of all of them, not that of the busiest. The same
//! processes can be measured on loopback UDP as well.

mod costs;
mod curves;
mod plot;
mod retwis;
mod rollback;
mod throughput;

pub use costs::Cost;
pub use plot::plot;
pub use rollback::Application;
pub use throughput::{Point, Testbed};

use crate::Figure;
use std::io;
use std::time::Duration;

/// What can be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What a request costs under each protocol.
    Table1,
    /// Latency by throughput.
    Figure8,
    /// Throughput by how many messages are overtaken.
    Figure9,
    /// What it takes an application to roll back.
    Table2,
    /// What the key-value store does of Retwis.
    Figure10,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Table1, Self::Figure8, Self::Figure9, Self::Table2, Self::Figure10];
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tables and figures.
    pub parts: Vec<Part>,
    /// How often what chance or the machine decides is measured; at least once.
    pub runs: usize,
    /// Clients of figure 8: so many of them in turn, from few to many.
    pub clients: Vec<u32>,
    /// Of a hundred messages to a replica so many are overtaken in figure 9: so many in turn, from few to many.
    pub reorder_percent: Vec<f64>,
    /// Virtual time of a measurement for figures 8 and 10, and three times as long for figure 9.
    pub span: Duration,
    /// Clients of figure 10, in the same way.
    pub retwis_clients: Vec<u32>,
    /// How long 99 of 100 of its transactions may take.
    pub bound: Duration,
    /// For how long each point of figures 8 and 9 is measured on loopback as well, if it is.
    pub loopback: Option<Duration>,
}

impl Default for Options {
    /// As in the paper.
    fn default() -> Self {
        Self {
            parts: Part::ALL.into(),
            runs: 3,
            clients: vec![1, 2, 4, 8, 16, 32, 64, 128, 300],
            reorder_percent: vec![0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
            span: Duration::from_millis(200),
            retwis_clients: vec![1, 4, 8, 12, 16, 20, 24, 32, 48],
            bound: Duration::from_millis(10),
            loopback: None,
        }
    }
}

/// All that was run again.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Table 1, by replicas and protocol.
    pub costs: Vec<Cost>,
    /// Figures 8 to 10.
    pub points: Vec<Point>,
    /// Table 2.
    pub applications: Vec<Application>,
    /// What has a name of all that, beside what the paper says.
    pub figures: Vec<Figure>,
}

/// Runs all that is asked for; `begin` hears how many of how many measurements are done, and what comes next.
///
/// # Errors
/// What the system says if there are no sockets or threads for loopback.
pub fn run(options: &Options, mut begin: impl FnMut(usize, usize, &str)) -> io::Result<Report> {
    let mut report = Report::default();
    let wants = |part| options.parts.contains(&part);
    if wants(Part::Table1) {
        report.costs = costs::count().map_err(io::Error::other)?;
        report.figures.extend(costs::figures(&report.costs));
    }
    report.points = throughput::measure(options, &mut begin)?;
    report.figures.extend(curves::figures(options, &report.points));
    if wants(Part::Table2) {
        report.applications = rollback::measure(options.runs).map_err(io::Error::other)?;
        report.figures.extend(rollback::figures(&report.applications));
    }
    Ok(report)
}

/// A figure's name.
fn name(part: &str, what: &str) -> String {
    format!("lab.speculative_paxos.{part}.{what}")
}
