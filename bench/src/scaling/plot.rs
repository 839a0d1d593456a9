//! Throughput as a picture: by servers on the left, by clients on the right; both axes are logarithmic.

use super::{Measured, Spread, of_linear};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

const SIZE: (f64, f64) = (980.0, 420.0);
const PANEL: (f64, f64) = (330.0, 310.0);
const TOP: f64 = 50.0;
const LEFTS: [f64; 2] = [70.0, 540.0];
const COLOURS: [&str; 7] = ["#0b6e99", "#c0392b", "#d68910", "#7d6608", "#1e8449", "#6c3483", "#63a8c4"];
const GREY: &str = "#777";
/// Height of a line of letters.
const LETTERS: f64 = 12.0;

/// Draws what was measured.
///
/// # Errors
/// What the system says if the file cannot be written.
pub fn plot(measured: &[Measured], path: &Path) -> io::Result<()> {
    std::fs::write(path, draw(measured))
}

/// A line of points, with its name at the end.
struct Curve<'a> {
    name: String,
    colour: &'a str,
    is_dashed: bool,
    points: Vec<(f64, f64)>,
}

fn draw(measured: &[Measured]) -> String {
    let mut picture = String::new();
    let rates = measured.iter().map(|m| m.operations_per_second.max(1.0));
    let lowest = 10_f64.powf(rates.clone().fold(f64::INFINITY, f64::min).log10().floor());
    let highest = 10_f64.powf(rates.fold(lowest * 10.0, f64::max).log10().ceil());
    for (left, title, along, curves) in [
        (LEFTS[0], "16 clients for each server", "servers", by_servers(measured)),
        (LEFTS[1], "uniform, each line so many servers", "clients", by_clients(measured)),
    ] {
        let most = curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x).fold(2.0, f64::max);
        let panel = Panel { left, most, lowest, highest };
        panel.axes(&mut picture, title, along, &curves);
        curves.iter().for_each(|curve| panel.curve(&mut picture, curve));
        panel.names(&mut picture, &curves);
    }
    let (width, height) = SIZE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         {picture}</svg>\n"
    )
}

fn by_servers(measured: &[Measured]) -> Vec<Curve<'static>> {
    let proportional = || measured.iter().filter(|m| m.is_proportional());
    let mut curves = Vec::new();
    let linear = |m: &Measured| Some((m.servers.into(), m.operations_per_second / of_linear(measured, m)?));
    curves.push(Curve {
        name: "linear".into(),
        colour: GREY,
        is_dashed: true,
        points: proportional().filter(|m| m.spread() == Spread::Uniform).filter_map(linear).collect(),
    });
    for (spread, colour) in [Spread::Uniform, Spread::Zipfian, Spread::HotRow].into_iter().zip(COLOURS) {
        let points = proportional().filter(|m| m.spread() == spread).map(|m| point(m.servers, m)).collect();
        curves.push(Curve { name: spread.to_string(), colour, is_dashed: false, points });
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

fn by_clients(measured: &[Measured]) -> Vec<Curve<'static>> {
    let mut servers: Vec<u32> = measured.iter().map(|m| m.servers).collect();
    servers.dedup();
    let curve = |(servers, colour): (u32, &'static str)| {
        let these = measured.iter().filter(|m| m.servers == servers && m.spread() == Spread::Uniform);
        let points = these.map(|m| point(m.clients, m)).collect();
        Curve { name: servers.to_string(), colour, is_dashed: false, points }
    };
    servers.into_iter().zip(COLOURS.into_iter().cycle()).map(curve).collect()
}

fn point(x: u32, m: &Measured) -> (f64, f64) {
    (x.into(), m.operations_per_second.max(1.0))
}

/// A place for curves: `x` from 1 to `most`, `y` from `lowest` to `highest`.
struct Panel {
    left: f64,
    most: f64,
    lowest: f64,
    highest: f64,
}

impl Panel {
    fn x(&self, x: f64) -> f64 {
        self.left + PANEL.0 * x.ln() / self.most.ln()
    }

    fn y(&self, y: f64) -> f64 {
        TOP + PANEL.1 * (1.0 - (y / self.lowest).ln() / (self.highest / self.lowest).ln())
    }

    fn axes(&self, picture: &mut String, title: &str, along: &str, curves: &[Curve<'_>]) {
        let bottom = TOP + PANEL.1;
        text(picture, (self.left, TOP - 26.0), "start", &format!("operations a second; {title}"));
        text(picture, (self.left + PANEL.0 / 2.0, bottom + 36.0), "middle", along);
        let mut rate = self.lowest;
        while rate <= self.highest * 1.01 {
            let y = self.y(rate);
            line(picture, &[(self.left, y), (self.left + PANEL.0, y)], "#ddd", false);
            text(picture, (self.left - 6.0, y + 4.0), "end", &short(rate));
            rate *= 10.0;
        }
        let mut places: Vec<f64> = curves.iter().flat_map(|c| &c.points).map(|(x, _)| *x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        for place in places {
            text(picture, (self.x(place), bottom + 16.0), "middle", &place.to_string());
        }
    }

    fn curve(&self, picture: &mut String, curve: &Curve<'_>) {
        let points: Vec<_> = curve.points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        line(picture, &points, curve.colour, curve.is_dashed);
        for (x, y) in points.iter().filter(|_| !curve.is_dashed) {
            // Writing to a string does not fail.
            let _ = writeln!(
                picture,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{}\"/>",
                curve.colour
            );
        }
    }

    /// At the ends of the curves, as far apart as can be read.
    fn names(&self, picture: &mut String, curves: &[Curve<'_>]) {
        let end = |curve: &Curve<'_>| curve.points.last().map_or(0.0, |(_, y)| self.y(*y));
        let mut by_height: Vec<_> = curves.iter().collect();
        by_height.sort_by(|a, b| end(a).total_cmp(&end(b)));
        let mut free = 0.0;
        for curve in by_height {
            let y = f64::max(end(curve), free);
            free = y + LETTERS;
            let name = format!("<tspan fill=\"{}\">{}</tspan>", curve.colour, curve.name);
            text(picture, (self.left + PANEL.0 + 8.0, y + 4.0), "start", &name);
        }
    }
}

/// A power of ten in few letters.
fn short(rate: f64) -> String {
    match rate {
        1e6.. => format!("{} M", rate / 1e6),
        1e3.. => format!("{} k", rate / 1e3),
        _ => rate.to_string(),
    }
}

fn line(picture: &mut String, points: &[(f64, f64)], colour: &str, is_dashed: bool) {
    let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dash = if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(
        picture,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dash}/>",
        points.join(" ")
    );
}

fn text(picture: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(picture, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}
