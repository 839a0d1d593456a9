//! Latency and throughput as a picture: SVG, written by hand, since bars and labels are all it has.

use super::{Measured, Workload};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

const WIDTH: f64 = 980.0;
const BAR: f64 = 16.0;
const GAP: f64 = 14.0;
/// Two lines that say what the load is.
const LABEL: f64 = 30.0;
/// Where bars begin, and how long the longest is, for rates and for latencies.
const RATES: (f64, f64) = (190.0, 220.0);
const LATENCIES: (f64, f64) = (520.0, 300.0);
const COLOURS: [&str; 5] = ["#0b6e99", "#63a8c4", "#c0392b", "#d68910", "#7d6608"];

/// Draws what was measured: a group of bars for each load, with throughput on the left and, on a logarithmic scale, the
/// latencies on the right: the bar ends at the 99th percentile, with marks at the 50th and the 99.9th.
///
/// # Errors
/// What the system says if the file cannot be written.
pub fn plot(measured: &[Measured], path: &Path) -> io::Result<()> {
    std::fs::write(path, draw(measured))
}

fn draw(measured: &[Measured]) -> String {
    let mut systems: Vec<&str> = Vec::new();
    let mut loads: Vec<(Workload, &str, u32, usize)> = Vec::new();
    let load = |m: &Measured| (m.workload, m.distribution, m.clients, m.value_bytes);
    for m in measured {
        if !systems.contains(&m.system.as_str()) {
            systems.push(&m.system);
        }
        if !loads.contains(&load(m)) {
            loads.push(load(m));
        }
    }
    let fastest = measured.iter().map(|m| m.operations_per_second).fold(1.0, f64::max);
    let slowest = measured.iter().map(|m| m.p999_microseconds).fold(10.0, f64::max);
    let along = |microseconds: f64| LATENCIES.1 * microseconds.max(1.0).ln() / slowest.ln();
    let mut picture = String::new();
    let mut y = 60.0;
    text(&mut picture, RATES.0, 40.0, "operations a second");
    text(&mut picture, LATENCIES.0, 40.0, "latency, µs, logarithmic: | 50 %, bar 99 %, · 99.9 %");
    for (n, system) in systems.iter().enumerate() {
        let x = 20.0 + 170.0 * n as f64;
        rectangle(&mut picture, (x, 8.0), (12.0, 12.0), COLOURS[n % COLOURS.len()]);
        text(&mut picture, x + 18.0, 18.0, system);
    }
    for wanted in loads {
        let (workload, distribution, clients, bytes) = wanted;
        let begun = y;
        text(&mut picture, 10.0, y + 12.0, &format!("{workload}, {distribution}"));
        text(&mut picture, 10.0, y + 26.0, &format!("{clients} clients, {bytes} B"));
        for m in measured.iter().filter(|m| load(m) == wanted) {
            let colour = systems
                .iter()
                .position(|system| *system == m.system)
                .map_or("#000", |n| COLOURS[n % COLOURS.len()]);
            let length = RATES.1 * m.operations_per_second / fastest;
            rectangle(&mut picture, (RATES.0, y), (length, BAR - 3.0), colour);
            text(&mut picture, RATES.0 + length + 4.0, y + 11.0, &format!("{:.0}", m.operations_per_second));
            rectangle(&mut picture, (LATENCIES.0, y), (along(m.p99_microseconds), BAR - 3.0), colour);
            let middle = LATENCIES.0 + along(m.p50_microseconds);
            rectangle(&mut picture, (middle, y), (2.0, BAR - 3.0), "#fff");
            let far = LATENCIES.0 + along(m.p999_microseconds);
            rectangle(&mut picture, (far, y + 5.0), (3.0, 3.0), colour);
            let numbers =
                format!("{:.0} / {:.0} / {:.0}", m.p50_microseconds, m.p99_microseconds, m.p999_microseconds);
            text(&mut picture, far + 8.0, y + 11.0, &numbers);
            y += BAR;
        }
        y = y.max(begun + LABEL) + GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{picture}</svg>\n"
    )
}

fn rectangle(picture: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(
        picture,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}

fn text(picture: &mut String, x: f64, y: f64, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(picture, "<text x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>");
}
