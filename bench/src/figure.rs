//! Figures: what has a name, and is compared over years.

use serde::Serialize;
use std::fs;

/// Something measured several times, or counted once. The names are fixed once given: others compare them over years.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Such as `sql.scan_1000`.
    pub figure: String,
    /// The median of the runs.
    pub value: f64,
    /// `ratio`, or what is counted.
    pub unit: &'static str,
    /// `higher` or `lower`.
    pub better: &'static str,
    /// What it is compared with, and its version; empty, if that is the paper alone.
    pub peer: String,
    /// How often both were measured in turn.
    pub runs: usize,
    /// The worst run.
    pub min: f64,
    /// The best run.
    pub max: f64,
    /// What the design asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// What the paper says that is run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// Fulmar's median time an operation, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fulmar_nanoseconds: Option<f64>,
    /// The peer's median time an operation, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_nanoseconds: Option<f64>,
    /// Processor and number of cores.
    pub machine: String,
    /// How it is measured, and what is not.
    pub note: String,
}

impl Figure {
    /// What came of so many runs on this machine, beside nothing yet. `better` is `higher` or `lower`.
    pub(crate) fn of(
        figure: impl Into<String>,
        unit: &'static str,
        better: &'static str,
        runs: &[f64],
    ) -> Self {
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (min, max) = if better == "higher" { (least, most) } else { (most, least) };
        Self {
            figure: figure.into(),
            value: median(runs),
            unit,
            better,
            peer: String::new(),
            runs: runs.len(),
            min,
            max,
            target: None,
            paper: None,
            fulmar_nanoseconds: None,
            peer_nanoseconds: None,
            machine: machine(),
            note: String::new(),
        }
    }

    /// One line of JSON.
    ///
    /// # Panics
    /// Never: every field has a JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers")
    }
}

/// The middle value of an odd number of them, else the upper of the two in the middle; zero of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Whether a figure is among those whose name contains this; all are, if nothing is asked for.
pub(crate) fn is_wanted(only: Option<&str>, figure: &str) -> bool {
    only.is_none_or(|only| figure.contains(only))
}

/// The processor's name and how many there are.
pub fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.unwrap_or("unknown processor"))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 3.0);
        assert_eq!(median(&[]), 0.0);
    }
}
