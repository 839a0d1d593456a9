//! Figures 8 and 9: what closed-loop clients see, by how many they are, and by how many messages are overtaken.

use super::{Options, Part, name};
use crate::figure::median;
use crate::replication::simulated::{Setting, World};
use crate::replication::{Cluster, Mode, Run};
use crate::{Figure, machine};
use fulmar_node::Random;
use fulmar_transport::Disturbance;
use serde::Serialize;
use std::io;
use std::time::Duration;

/// Figure 9's clients (section 4.5.2).
const CLIENTS: u32 = 20;
/// Figure 9 takes so many times as long, since what is rare has to happen.
const LONGER: u32 = 3;
/// Latencies under load are compared at this share of the throughput that both have at most: the paper compares at 90,000
/// operations a second of some 100,000.
const LOAD: f64 = 0.9;

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
    /// `lab.speculative_paxos.figure8` or `…figure9`.
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
    part: Part,
    #[serde(skip)]
    mode: Mode,
    #[serde(skip)]
    runs: Vec<Run>,
}

impl Point {
    /// Figure 8 or figure 9.
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
    /// Without reordering the simulator leaves nothing to chance.
    fn is_certain(self) -> bool {
        self.testbed == Testbed::Simulator && self.reorder_percent == 0.0
    }

    fn measure(self, options: &Options, seed: u64) -> io::Result<Run> {
        let Self { mode, clients, .. } = self;
        let reorder = self.reorder_percent / 100.0;
        match self.testbed {
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

const fn word(part: Part) -> &'static str {
    if matches!(part, Part::Figure9) { "figure9" } else { "figure8" }
}

fn testbeds(loopback: Option<Duration>) -> impl Iterator<Item = Testbed> {
    [Testbed::Simulator].into_iter().chain(loopback.map(|_| Testbed::Loopback))
}

fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    let wants = |part| options.parts.contains(&part);
    for testbed in testbeds(options.loopback) {
        let modes = |part, clients, reorder_percent| {
            Mode::ALL.map(|mode| Cell { part, testbed, mode, clients, reorder_percent })
        };
        if wants(Part::Figure8) {
            cells.extend(options.clients.iter().flat_map(|clients| modes(Part::Figure8, *clients, 0.0)));
        }
        if wants(Part::Figure9) {
            let percent = options.reorder_percent.iter();
            cells.extend(percent.flat_map(|percent| modes(Part::Figure9, CLIENTS, *percent)));
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
        let what = format!("{}: {}, {clients} clients", word(part), mode.name());
        begin(done, turns.len(), &format!("{what}, {reorder_percent} % overtaken"));
        runs[at].push(cells[at].measure(options, run as u64 + 1)?);
    }
    Ok(cells.into_iter().zip(runs).map(|(cell, runs)| cell.point(runs)).collect())
}

pub(super) fn figures(options: &Options, points: &[Point]) -> Vec<Figure> {
    let of = |testbed| {
        let curves = |part| Curves { points, testbed, part };
        [figure8(&curves(Part::Figure8)), figure9(&curves(Part::Figure9))].concat()
    };
    testbeds(options.loopback).flat_map(of).collect()
}

/// The points of one figure.
struct Curves<'a> {
    points: &'a [Point],
    testbed: Testbed,
    part: Part,
}

/// How two protocols compare, and what the paper says.
struct Claim<'a> {
    what: &'a str,
    better: &'static str,
    paper: Option<f64>,
    note: &'a str,
}

impl Curves<'_> {
    fn of(&self, mode: Mode) -> impl Iterator<Item = &Point> {
        let is_it = move |p: &&Point| (p.testbed, p.part, p.mode) == (self.testbed, self.part, mode);
        self.points.iter().filter(is_it)
    }

    /// What one run of one protocol has of something, beside the same of another.
    fn ratio(
        &self,
        [ours, theirs]: [Mode; 2],
        claim: &Claim<'_>,
        value: impl Fn(&[(f64, f64)]) -> Option<f64>,
    ) -> Option<Figure> {
        let runs = self.of(ours).chain(self.of(theirs)).map(|point| point.runs.len()).min()?;
        let of_run = |mode, run: usize| {
            let point = |point: &Point| (point.runs[run].rate, point.runs[run].microseconds(50.0));
            value(&self.of(mode).map(point).collect::<Vec<_>>())
        };
        let ratios: Option<Vec<f64>> =
            (0..runs).map(|run| Some(of_run(ours, run)? / of_run(theirs, run)?)).collect();
        Some(self.figure(claim, theirs.name(), &ratios?))
    }

    fn figure(&self, claim: &Claim<'_>, peer: &str, runs: &[f64]) -> Figure {
        let (prefix, testbed, machine) = match self.testbed {
            Testbed::Simulator => ("", "with a processor each", "simulated".into()),
            Testbed::Loopback => ("loopback_", "on the same cores as clients", machine()),
        };
        Figure {
            peer: peer.into(),
            paper: claim.paper,
            machine,
            note: format!("{}; three replicas {testbed}", claim.note),
            ..Figure::of(
                name(word(self.part), &format!("{prefix}{}", claim.what)),
                "ratio",
                claim.better,
                runs,
            )
        }
    }
}

/// Section 4.5.1.
fn figure8(curves: &Curves<'_>) -> Vec<Figure> {
    use Mode::{Batching, Fast, Speculative, Viewstamped};
    let alone = |what, modes, paper| {
        let note = "median latency of the fewest clients";
        let claim = Claim { what, better: "lower", paper: Some(paper), note };
        curves.ratio(modes, &claim, |points| Some(points.first()?.1))
    };
    let most = |what, modes, paper| {
        let note = "operations a second, each with as many clients as it does most with";
        curves.ratio(modes, &Claim { what, better: "higher", paper: Some(paper), note }, |points| {
            Some(peak(points))
        })
    };
    let load = [Speculative, Batching].map(|mode| {
        let points: Vec<_> = curves.of(mode).map(|point| (point.operations_per_second, 0.0)).collect();
        LOAD * peak(&points)
    });
    let load = load[0].min(load[1]);
    let loaded = Claim {
        what: "latency_loaded_batching_vs_speculative",
        better: "higher",
        paper: Some(3.5),
        note: "median latency at 0.9 of the operations a second that both reach",
    };
    let figures = [
        alone("latency_speculative_vs_viewstamped", [Speculative, Viewstamped], 135.0 / 220.0),
        alone("latency_fast_vs_viewstamped", [Fast, Viewstamped], 171.0 / 220.0),
        most("throughput_speculative_vs_viewstamped", [Speculative, Viewstamped], 100.0 / 38.0),
        most("throughput_fast_vs_viewstamped", [Fast, Viewstamped], 1.0),
        most("throughput_batching_vs_speculative", [Batching, Speculative], 1.0),
        curves.ratio([Batching, Speculative], &loaded, |points| latency_at(points, load)),
    ];
    figures.into_iter().flatten().collect()
}

/// The most operations a second of some points.
fn peak(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(rate, _)| *rate).fold(0.0, f64::max)
}

/// The latency at which a curve first comes to so many operations a second.
fn latency_at(points: &[(f64, f64)], rate: f64) -> Option<f64> {
    crossing(points.iter().copied(), |(at, _)| at - rate)
        .map(|((_, before), (_, after), share)| before + (after - before) * share)
}

/// Where something first is no longer below zero: between which points, and how far from the first of them, from 0 to 1.
fn crossing<T: Copy>(points: impl Iterator<Item = T>, value: impl Fn(T) -> f64) -> Option<(T, T, f64)> {
    let mut before = None;
    for point in points {
        if value(point) >= 0.0 {
            let before = before.unwrap_or(point);
            let rise = value(point) - value(before);
            return Some((before, point, if rise > 0.0 { -value(before) / rise } else { 0.0 }));
        }
        before = Some(point);
    }
    None
}

/// Section 4.5.2.
fn figure9(curves: &Curves<'_>) -> Vec<Figure> {
    use Mode::{Fast, Speculative, Viewstamped};
    let mut figures = Vec::new();
    for (at, point) in curves.of(Speculative).enumerate() {
        let percent = point.reorder_percent;
        let what = format!("speculative_vs_viewstamped_{}_percent", percent.to_string().replace('.', "_"));
        let paper = (at == 0).then_some(3.0);
        let note = format!(
            "operations a second of {CLIENTS} clients, {percent} % of messages to replicas overtaken"
        );
        let claim = Claim { what: &what, better: "higher", paper, note: &note };
        figures.extend(curves.ratio([Speculative, Viewstamped], &claim, |points| Some(points.get(at)?.0)));
    }
    for (what, mode) in
        [("kept_viewstamped", Viewstamped), ("kept_fast", Fast), ("kept_speculative", Speculative)]
    {
        let note = "operations a second with the most messages overtaken";
        let claim = Claim { what, better: "higher", paper: None, note };
        let runs = curves.of(mode).map(|point| point.runs.len()).min().unwrap_or_default();
        let kept = |run: usize| {
            let mut rates = curves.of(mode).map(|point| point.runs[run].rate);
            let first = rates.next()?;
            Some(rates.last()? / first)
        };
        if let Some(kept) = (0..runs).map(kept).collect::<Option<Vec<f64>>>().filter(|kept| !kept.is_empty())
        {
            figures.push(curves.figure(&claim, "with the fewest", &kept));
        }
    }
    figures.extend(parity(curves));
    figures
}

/// Up to where Speculative Paxos is ahead, between two points on a logarithmic scale.
fn parity(curves: &Curves<'_>) -> Option<Figure> {
    let ours = curves.of(Mode::Speculative);
    let behind = ours.zip(curves.of(Mode::Viewstamped)).map(|(our, their)| {
        (our.reorder_percent, their.operations_per_second / our.operations_per_second - 1.0)
    });
    let (before, after, share) = crossing(behind, |(_, behind)| behind)?;
    let percent = before.0 * (after.0 / before.0).powf(share);
    let note = "of a hundred messages to replicas so many are overtaken where both do as much";
    let claim = Claim { what: "parity_percent", better: "higher", paper: Some(0.1), note };
    Some(Figure { unit: "percent", ..curves.figure(&claim, Mode::Viewstamped.name(), &[percent]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(options: &Options) -> (Vec<Point>, Vec<Figure>) {
        let points = measure(options, |_, _, _| {}).expect("a simulator");
        let figures = figures(options, &points);
        (points, figures)
    }

    fn small() -> Options {
        Options {
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

    #[test]
    fn what_is_left_out_has_no_figures() {
        let (points, figures) = run(&Options { parts: vec![Part::Figure8], ..small() });
        assert!(points.iter().all(|point| point.part == Part::Figure8));
        assert!(figures.iter().all(|figure| figure.figure.starts_with("lab.speculative_paxos.figure8.")));
        assert!(run(&Options { parts: vec![Part::Table1], ..small() }).1.is_empty());
    }

    #[test]
    fn a_crossing_is_between_its_points() {
        let crossing = |values: &[f64]| crossing(values.iter().copied(), |value| value);
        assert_eq!(crossing(&[-3.0, -1.0, 3.0, 5.0]), Some((-1.0, 3.0, 0.25)));
        assert_eq!(crossing(&[2.0]), Some((2.0, 2.0, 0.0)));
        assert_eq!(crossing(&[-1.0]), None);
    }
}
