//! Long runs: the conformance crate's `soak` binary, with budgets.

use crate::run::{Result, cargo, run, steps};

/// How long to soak.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// Minutes: what CI runs.
    Slice,
    /// Hours: what a release runs.
    Full,
}

pub(crate) fn soak(length: Length) -> Result {
    let (kills, transfers, cache, statements) = match length {
        Length::Slice => ("25", "500", "40", "100000"),
        Length::Full => ("1000", "100000", "256", "1000000"),
    };
    steps(&[
        ("kill", &|| soak_binary(&["kill", "--rounds", kills])),
        ("transfers", &|| soak_binary(&["transfers", "--rounds", transfers])),
        ("fuzz", &|| soak_binary(&["fuzz", "--statements", statements])),
        ("memory", &|| soak_binary(&["memory", "--cache", cache])),
    ])
}

fn soak_binary(arguments: &[&str]) -> Result {
    let cargo_run = ["run", "--release", "--locked", "-p", "fulmar-conformance", "--bin", "soak", "--"];
    run(cargo(&cargo_run).args(arguments))
}
