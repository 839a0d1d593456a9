//! Rounds by how many lie; trees, messages and computation by how many there are.

use super::{Growth, Report};
use crate::chart::{Axis, Chart, Curve, Scale, draw};

/// An SVG of what was counted.
pub fn plot(report: &Report) -> String {
    let of = |title: &str, label, value: fn(&Growth) -> Option<f64>| Chart {
        title: title.into(),
        x: Axis { label: "processes", scale: Scale::Linear },
        y: Axis { label, scale: Scale::Logarithmic },
        curves: growth(report, value),
    };
    draw(&[
        rounds(report),
        of("Largest tree", "nodes", |growth| Some(growth.nodes)),
        of("Longest message", "bytes", |growth| Some(growth.message)),
        of("Computation of the busiest process", "µs", |growth| growth.microseconds),
    ])
}

/// A curve for each t.
fn rounds(report: &Report) -> Chart {
    let of_size = report.rounds.chunk_by(|one, next| one.t == next.t).map(|rounds| Curve {
        name: rounds.first().map_or_else(String::new, |first| format!("t = {}", first.t)),
        points: rounds.iter().filter(|r| !r.unanimous).map(|r| (r.f as f64, r.rounds.into())).collect(),
    });
    Chart {
        title: "Rounds by how many lie".into(),
        x: Axis { label: "processes that lie (f)", scale: Scale::Linear },
        y: Axis { label: "rounds", scale: Scale::Linear },
        curves: of_size.collect(),
    }
}

/// A curve for each protocol.
fn growth(report: &Report, value: fn(&Growth) -> Option<f64>) -> Vec<Curve> {
    let of_protocol = report.growth.chunk_by(|one, next| one.protocol == next.protocol);
    let curve = |growth: &[Growth]| Curve {
        name: growth.first().map_or("", |first| first.protocol).into(),
        points: growth.iter().filter_map(|growth| Some((growth.n as f64, value(growth)?))).collect(),
    };
    of_protocol.map(curve).collect()
}
