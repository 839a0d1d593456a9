//! Throughput as a picture: by servers on the left, by clients on the right; both axes are logarithmic.

use super::{Measured, Spread, of_linear};
use crate::chart::{Axis, Chart, Curve, Scale, draw};

/// An SVG of what was measured.
pub fn plot(measured: &[Measured]) -> String {
    let chart = |title: &str, along, curves| Chart {
        title: title.into(),
        x: Axis { label: along, scale: Scale::Logarithmic },
        y: Axis { label: "operations a second", scale: Scale::Logarithmic },
        curves,
    };
    draw(&[
        chart("16 clients for each server", "servers", by_servers(measured)),
        chart("uniform, each line so many servers", "clients", by_clients(measured)),
    ])
}

fn by_servers(measured: &[Measured]) -> Vec<Curve> {
    let proportional = || measured.iter().filter(|m| m.is_proportional());
    let linear = |m: &Measured| Some((m.servers.into(), m.operations_per_second / of_linear(measured, m)?));
    let mut curves = vec![Curve {
        name: "linear".into(),
        points: proportional().filter(|m| m.spread() == Spread::Uniform).filter_map(linear).collect(),
    }];
    for spread in [Spread::Uniform, Spread::Zipfian, Spread::HotRow] {
        let points = proportional().filter(|m| m.spread() == spread).map(|m| point(m.servers, m)).collect();
        curves.push(Curve { name: spread.to_string(), points });
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

fn by_clients(measured: &[Measured]) -> Vec<Curve> {
    let mut servers: Vec<u32> = measured.iter().map(|m| m.servers).collect();
    servers.dedup();
    let curve = |servers: u32| {
        let these = measured.iter().filter(|m| m.servers == servers && m.spread() == Spread::Uniform);
        Curve { name: servers.to_string(), points: these.map(|m| point(m.clients, m)).collect() }
    };
    servers.into_iter().map(curve).collect()
}

fn point(x: u32, m: &Measured) -> (f64, f64) {
    (x.into(), m.operations_per_second.max(1.0))
}
