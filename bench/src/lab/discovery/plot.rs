//! Rounds and messages by size, a pair of charts for each topology.

use super::{Algorithm, Row, Shape};
use crate::chart::{Axis, Chart, Curve, Scale, draw};

/// An SVG of what was measured.
pub fn plot(rows: &[Row]) -> String {
    let measured = Shape::ALL.into_iter().filter(|shape| rows.iter().any(|row| row.shape == *shape));
    let charts: Vec<Chart> = measured
        .flat_map(|shape| {
            let chart = |label, value: fn(&Row) -> f64| Chart {
                title: format!("{}: {label}", shape.name().replace('_', " ")),
                x: Axis { label: "machines", scale: Scale::Logarithmic },
                y: Axis { label, scale: Scale::Logarithmic },
                curves: Algorithm::ALL.into_iter().map(|by| curve(rows, shape, by, value)).collect(),
            };
            [chart("rounds", |row| row.rounds), chart("messages per machine", |row| row.messages_per_node)]
        })
        .collect();
    draw(&charts)
}

fn curve(rows: &[Row], shape: Shape, by: Algorithm, value: fn(&Row) -> f64) -> Curve {
    let of_it = rows.iter().filter(|row| (row.shape, row.by) == (shape, by));
    Curve { name: by.name().into(), points: of_it.map(|row| (row.machines as f64, value(row))).collect() }
}
