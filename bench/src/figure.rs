//! Figures: named ratios.

use serde::Serialize;
use std::fs;

/// A ratio measured several times. The names are fixed once given: others compare them over years.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Such as `sql.scan_1000`.
    pub figure: &'static str,
    /// The median of the runs.
    pub value: f64,
    /// `ratio`.
    pub unit: &'static str,
    /// `higher` or `lower`.
    pub better: &'static str,
    /// What it is compared with, and its version.
    pub peer: String,
    /// How often both were measured in turn.
    pub runs: usize,
    /// The worst run.
    pub min: f64,
    /// The best run.
    pub max: f64,
    /// What the design asks for.
    pub target: f64,
    /// Fulmar's median time an operation, nanoseconds.
    pub fulmar_nanoseconds: f64,
    /// The peer's median time an operation, nanoseconds.
    pub peer_nanoseconds: f64,
    /// Processor and number of cores.
    pub machine: String,
    /// How it is measured, and what is not.
    pub note: String,
}

impl Figure {
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
