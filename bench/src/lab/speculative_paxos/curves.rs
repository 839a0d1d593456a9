//! What curves come to: how protocols compare, beside what the paper says.

use super::throughput::{CLIENTS, Point, Testbed, testbeds, word};
use super::{Options, Part, name, retwis};
use crate::replication::{Mode, Run};
use crate::{Figure, machine};

/// Latencies under load are compared at this share of the throughput that both have at most: the paper compares at 90,000
/// operations a second of some 100,000.
const LOAD: f64 = 0.9;

pub(super) fn figures(options: &Options, points: &[Point]) -> Vec<Figure> {
    let of = |testbed| {
        let curves = |part| Curves { points, testbed, part };
        let figure10 = retwis::figures(&curves(Part::Figure10), options.bound);
        [figure8(&curves(Part::Figure8)), figure9(&curves(Part::Figure9)), figure10].concat()
    };
    testbeds(options.loopback).flat_map(of).collect()
}

/// The points of one figure.
pub(super) struct Curves<'a> {
    points: &'a [Point],
    testbed: Testbed,
    part: Part,
}

/// How two protocols compare, and what the paper says.
pub(super) struct Claim<'a> {
    pub(super) what: &'a str,
    pub(super) better: &'static str,
    pub(super) paper: Option<f64>,
    pub(super) note: &'a str,
}

impl Curves<'_> {
    fn of(&self, mode: Mode) -> impl Iterator<Item = &Point> {
        let is_it = move |p: &&Point| (p.testbed, p.part, p.mode) == (self.testbed, self.part, mode);
        self.points.iter().filter(is_it)
    }

    /// What one run of one protocol has of something, beside the same of another.
    pub(super) fn ratio(
        &self,
        [ours, theirs]: [Mode; 2],
        claim: &Claim<'_>,
        value: impl Fn(&[&Run]) -> Option<f64>,
    ) -> Option<Figure> {
        let (ours, peers) = (self.each_run(ours, &value)?, self.each_run(theirs, &value)?);
        let ratios: Vec<f64> = ours.iter().zip(peers).map(|(ours, theirs)| ours / theirs).collect();
        Some(self.figure(claim, theirs.name(), &ratios))
    }

    /// What each run of a protocol has of something; nothing, if one has none.
    pub(super) fn each_run(&self, mode: Mode, value: impl Fn(&[&Run]) -> Option<f64>) -> Option<Vec<f64>> {
        let runs = self.of(mode).map(|point| point.runs.len()).min()?;
        let of_run = |run: usize| value(&self.of(mode).map(|point| &point.runs[run]).collect::<Vec<_>>());
        (0..runs).map(of_run).collect()
    }

    pub(super) fn figure(&self, claim: &Claim<'_>, peer: &str, runs: &[f64]) -> Figure {
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
        curves.ratio(modes, &claim, |runs| Some(runs.first()?.microseconds(50.0)))
    };
    let most = |what, modes, paper| {
        let note = "operations a second, each with as many clients as it does most with";
        curves.ratio(modes, &Claim { what, better: "higher", paper: Some(paper), note }, |runs| {
            Some(peak(runs.iter().map(|run| run.rate)))
        })
    };
    let load = [Speculative, Batching]
        .map(|mode| LOAD * peak(curves.of(mode).map(|point| point.operations_per_second)));
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
        curves.ratio([Batching, Speculative], &loaded, |runs| latency_at(runs, load)),
    ];
    figures.into_iter().flatten().collect()
}

/// The most operations a second.
fn peak(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, f64::max)
}

/// The median latency at which a curve first comes to so many operations a second.
fn latency_at(runs: &[&Run], rate: f64) -> Option<f64> {
    let (before, after, share) = crossing(runs.iter().copied(), |run| run.rate - rate)?;
    let [before, after] = [before, after].map(|run| run.microseconds(50.0));
    Some(before + (after - before) * share)
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
        figures.extend(curves.ratio([Speculative, Viewstamped], &claim, |runs| Some(runs.get(at)?.rate)));
    }
    for (what, mode) in
        [("kept_viewstamped", Viewstamped), ("kept_fast", Fast), ("kept_speculative", Speculative)]
    {
        let note = "operations a second with the most messages overtaken";
        let claim = Claim { what, better: "higher", paper: None, note };
        let kept = curves.each_run(mode, |runs| Some(runs.last()?.rate / runs.first()?.rate));
        figures.extend(kept.map(|kept| curves.figure(&claim, "with the fewest", &kept)));
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

    #[test]
    fn a_crossing_is_between_its_points() {
        let crossing = |values: &[f64]| crossing(values.iter().copied(), |value| value);
        assert_eq!(crossing(&[-3.0, -1.0, 3.0, 5.0]), Some((-1.0, 3.0, 0.25)));
        assert_eq!(crossing(&[2.0]), Some((2.0, 2.0, 0.0)));
        assert_eq!(crossing(&[-1.0]), None);
    }
}
