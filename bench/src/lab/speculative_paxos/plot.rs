//! Figures 8 to 10 as a picture, those of loopback below those of the simulator.

use super::{Part, Point, Testbed};
use crate::chart::{Axis, Chart, Curve, Scale, draw};
use crate::replication::Mode;

/// An SVG of what was measured.
pub fn plot(points: &[Point]) -> String {
    let charts = [Testbed::Simulator, Testbed::Loopback].into_iter().flat_map(|testbed| {
        let parts = [Part::Figure8, Part::Figure9, Part::Figure10];
        parts.into_iter().filter_map(move |part| chart(points, testbed, part))
    });
    draw(&charts.collect::<Vec<_>>())
}

/// Nothing, if nothing of it was measured.
fn chart(points: &[Point], testbed: Testbed, part: Part) -> Option<Chart> {
    let points: Vec<&Point> =
        points.iter().filter(|point| (point.testbed, point.part()) == (testbed, part)).collect();
    let curve = |mode: Mode| {
        let of_mode = points.iter().filter(|point| point.mode() == mode);
        let place = |point: &&Point| {
            let thousands = point.operations_per_second / 1e3;
            match part {
                Part::Figure9 => (point.reorder_percent, thousands),
                Part::Figure10 => (thousands, point.p99_microseconds / 1e3),
                _ => (thousands, point.p50_microseconds),
            }
        };
        Curve { name: mode.name().into(), points: of_mode.map(place).collect() }
    };
    let modes = Mode::ALL.into_iter().filter(|mode| points.iter().any(|point| point.mode() == *mode));
    let place = match testbed {
        Testbed::Simulator => "simulated",
        Testbed::Loopback => "loopback",
    };
    let throughput = Axis { label: "thousand operations a second", scale: Scale::Linear };
    let (title, x, y) = match part {
        Part::Figure9 => {
            let reordering = Axis { label: "messages overtaken, %", scale: Scale::Logarithmic };
            (format!("Figure 9, {place}: throughput by reordering"), reordering, throughput)
        }
        Part::Figure10 => {
            let throughput = Axis { label: "thousand transactions a second", scale: Scale::Linear };
            let latency = Axis { label: "99th percentile of latency, ms", scale: Scale::Logarithmic };
            (format!("Figure 10, {place}: latency by throughput of Retwis"), throughput, latency)
        }
        _ => {
            let latency = Axis { label: "median latency, µs", scale: Scale::Logarithmic };
            (format!("Figure 8, {place}: latency by throughput"), throughput, latency)
        }
    };
    (!points.is_empty()).then(|| Chart { title, x, y, curves: modes.map(curve).collect() })
}
