//! Figures 8 to 10: what closed-loop clients see, by how many they are, and by how many messages are overtaken.

use super::{Options, Part, retwis};
use crate::figure::median;
use crate::replication::simulated::{Setting, World};
use crate::replication::{Cluster, Mode, Run};
use fulmar_node::Random;
use fulmar_transport::Disturbance;
use serde::Serialize;
use std::io;
use std::time::Duration;

/// Figure 9's clients (section 4.5.2).
pub(super) const CLIENTS: u32 = 20;
/// Figure 9 takes so many times as long, since what is rare has to happen.
const LONGER: u32 = 3;

/// Where replicas run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Testbed {
    /// In the simulator, each with a processor of its own.
    Simulator,
    /// On loopback UDP, all on the cores of this machine.
    Loopback,
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// `lab.speculative_paxos.figure8`, `…figure9` or `…figure10`.
    pub measured: String,
    /// Where.
    pub testbed: Testbed,
    /// Under which protocol.
    pub protocol: &'static str,
    /// How many there were, each with one operation at a time.
    pub clients: u32,
    /// Of a hundred messages to a replica so many were overtaken.
    pub reorder_percent: f64,
    /// The median of the runs.
    pub operations_per_second: f64,
    /// Half of the operations took at most so many microseconds: the median of the runs…
    pub p50_microseconds: f64,
    /// …and so many of a hundred.
    pub p99_microseconds: f64,
    #[serde(skip)]
    pub(super) part: Part,
    #[serde(skip)]
    pub(super) mode: Mode,
    #[serde(skip)]
    pub(super) runs: Vec<Run>,
}

impl Point {
    /// Of which figure.
    pub const fn part(&self) -> Part {
        self.part
    }

    /// The way to replicate.
    pub const fn mode(&self) -> Mode {
        self.mode
    }
}

/// What is to be measured.
#[derive(Clone, Copy)]
struct Cell {
    part: Part,
    testbed: Testbed,
    mode: Mode,
    clients: u32,
    reorder_percent: f64,
}

impl Cell {
    /// Figure 8 in the simulator leaves nothing to chance.
    fn is_certain(self) -> bool {
        self.testbed == Testbed::Simulator && self.part == Part::Figure8
    }

    fn measure(self, options: &Options, seed: u64) -> io::Result<Run> {
        let Self { mode, clients, .. } = self;
        let reorder = self.reorder_percent / 100.0;
        match self.testbed {
            Testbed::Simulator if self.part == Part::Figure10 => {
                retwis::measure(mode, clients, options.span, seed).map_err(io::Error::other)
            }
            Testbed::Simulator => {
                let length = if self.part == Part::Figure9 { options.span * LONGER } else { options.span };
                let setting = Setting { reorder, length, seed, ..Setting::of(mode, clients) };
                Ok(World::new(&setting).map_err(io::Error::other)?.measure())
            }
            Testbed::Loopback => {
                let disturbance = Disturbance { drop: 0.0, reorder, random: Random::new(seed) };
                Cluster::run(mode, clients, options.loopback.unwrap_or_default(), disturbance)
            }
        }
    }

    fn point(self, runs: Vec<Run>) -> Point {
        let Self { part, testbed, mode, clients, reorder_percent } = self;
        let of = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
        Point {
            measured: format!("lab.speculative_paxos.{}", word(part)),
            testbed,
            protocol: mode.name(),
            clients,
            reorder_percent,
            operations_per_second: of(|run| run.rate).round(),
            p50_microseconds: of(|run| run.microseconds(50.0)),
            p99_microseconds: of(|run| run.microseconds(99.0)),
            part,
            mode,
            runs,
        }
    }
}

/// In the names of figures.
pub(super) const fn word(part: Part) -> &'static str {
    match part {
        Part::Table1 => "table1",
        Part::Figure8 => "figure8",
        Part::Figure9 => "figure9",
        Part::Table2 => "table2",
        Part::Figure10 => "figure10",
    }
}

pub(super) fn testbeds(loopback: Option<Duration>) -> impl Iterator<Item = Testbed> {
    [Testbed::Simulator].into_iter().chain(loopback.map(|_| Testbed::Loopback))
}

fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    let wants = |part| options.parts.contains(&part);
    for testbed in testbeds(options.loopback) {
        let modes = |part, clients, reorder_percent| {
            let modes: &[Mode] = if part == Part::Figure10 { &retwis::MODES } else { &Mode::ALL };
            modes.iter().map(move |&mode| Cell { part, testbed, mode, clients, reorder_percent })
        };
        if wants(Part::Figure8) {
            cells.extend(options.clients.iter().flat_map(|clients| modes(Part::Figure8, *clients, 0.0)));
        }
        if wants(Part::Figure9) {
            let percent = options.reorder_percent.iter();
            cells.extend(percent.flat_map(|percent| modes(Part::Figure9, CLIENTS, *percent)));
        }
        if wants(Part::Figure10) && testbed == Testbed::Simulator {
            let clients = options.retwis_clients.iter();
            cells.extend(clients.flat_map(|clients| modes(Part::Figure10, *clients, 0.0)));
        }
    }
    cells
}

/// Measures all protocols in turn, as often as is asked for where that makes a difference.
pub(super) fn measure(
    options: &Options,
    mut begin: impl FnMut(usize, usize, &str),
) -> io::Result<Vec<Point>> {
    let cells = cells(options);
    let mut runs: Vec<Vec<Run>> = cells.iter().map(|_| Vec::new()).collect();
    let turns = (0..options.runs).flat_map(|run| (0..cells.len()).map(move |at| (run, at)));
    let turns: Vec<_> = turns.filter(|&(run, at)| run == 0 || !cells[at].is_certain()).collect();
    for (done, &(run, at)) in turns.iter().enumerate() {
        let Cell { part, mode, clients, reorder_percent, .. } = cells[at];
        let overtaken = match part {
            Part::Figure9 => format!(", {reorder_percent} % overtaken"),
            _ => String::new(),
        };
        let what = format!("{}: {}, {clients} clients{overtaken}", word(part), mode.name());
        begin(done, turns.len(), &what);
        runs[at].push(cells[at].measure(options, run as u64 + 1)?);
    }
    Ok(cells.into_iter().zip(runs).map(|(cell, runs)| cell.point(runs)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::curves::figures;
    use super::*;
    use crate::Figure;

    fn run(options: &Options) -> (Vec<Point>, Vec<Figure>) {
        let points = measure(options, |_, _, _| {}).expect("a simulator");
        let figures = figures(options, &points);
        (points, figures)
    }

    fn small() -> Options {
        Options {
            parts: vec![Part::Figure8, Part::Figure9],
            runs: 2,
            clients: vec![1, 16, 64],
            reorder_percent: vec![0.01, 1.0],
            span: Duration::from_millis(10),
            ..Options::default()
        }
    }

    /// Virtual time: the same on every machine.
    #[test]
    fn figures_point_where_the_papers_do_and_do_so_again() {
        let (points, figures) = run(&small());
        assert_eq!(points.len(), Mode::ALL.len() * (3 + 2));
        assert!(points.iter().all(|point| point.operations_per_second > 0.0), "{points:?}");
        let value = |what: &str| {
            let figure = figures.iter().find(|figure| figure.figure.ends_with(what));
            figure.unwrap_or_else(|| panic!("no {what}")).value
        };
        assert!(value("figure8.latency_speculative_vs_viewstamped") < 0.7);
        assert!(value("figure8.latency_fast_vs_viewstamped") < 0.9);
        assert!(value("figure8.throughput_speculative_vs_viewstamped") > 2.0);
        assert!(value("figure8.throughput_batching_vs_speculative") > 0.8);
        assert!(value("figure8.latency_loaded_batching_vs_speculative") > 1.5);
        assert!(value("figure9.speculative_vs_viewstamped_0_01_percent") > 2.0);
        assert!(value("figure9.kept_speculative") < value("figure9.kept_fast"));
        assert!(value("figure9.kept_viewstamped") > 0.9);
        let again: Vec<f64> = run(&small()).1.iter().map(|figure| figure.value).collect();
        assert_eq!(figures.iter().map(|figure| figure.value).collect::<Vec<_>>(), again);
    }

    /// Over many signs of the leader: none of them has to come before clients go on.
    #[test]
    fn logs_that_differ_cost_speculative_paxos_a_few_messages() {
        let rate = |mode| {
            let length = Duration::from_millis(500);
            let setting = Setting { reorder: 0.01, length, seed: 1, ..Setting::of(mode, CLIENTS) };
            World::new(&setting).expect("three replicas").measure().rate
        };
        let (speculative, viewstamped) = (rate(Mode::Speculative), rate(Mode::Viewstamped));
        assert!(speculative > viewstamped, "{speculative} {viewstamped}");
    }

    #[test]
    fn what_is_left_out_has_no_figures() {
        let (points, figures) = run(&Options { parts: vec![Part::Figure8], ..small() });
        assert!(points.iter().all(|point| point.part == Part::Figure8));
        assert!(figures.iter().all(|figure| figure.figure.starts_with("lab.speculative_paxos.figure8.")));
        assert!(run(&Options { parts: vec![Part::Table1], ..small() }).1.is_empty());
    }
}
