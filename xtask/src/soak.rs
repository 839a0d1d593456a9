//! Long runs: the conformance crate's `soak` and `disk` binaries, and tests of which more is asked, with budgets.

use crate::fuzz::fuzz;
use crate::run::{Result, cargo, run, steps};
use std::process::Command;

/// How long to soak.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// Minutes: what CI runs.
    Slice,
    /// Hours: what a release runs.
    Full,
}

pub(crate) fn soak(length: Length) -> Result {
    let (kills, cuts, failures, transfers, cache, statements, scripts, seconds) = match length {
        Length::Slice => ("25", "250", "100", "500", "40", "100000", "index-random-", "10"),
        Length::Full => ("1000", "3000", "1000", "100000", "256", "1000000", "", "1200"),
    };
    steps(&[
        ("kill", &|| binary("soak", &["kill", "--rounds", kills])),
        ("disk", &|| {
            binary("disk", &["states", "--count", cuts])?;
            binary("disk", &["failures", "--rounds", failures])
        }),
        ("transfers", &|| binary("soak", &["transfers", "--rounds", transfers])),
        ("fuzz", &|| binary("soak", &["fuzz", "--statements", statements])),
        ("sqllogictest on three servers", &|| {
            run(program("soak", &["slt", "--files", scripts]).env("FULMAR_ON_SERVERS", "3"))
        }),
        ("replicas killed and stopped", &|| match length {
            // A few rounds are among the tests.
            Length::Slice => Ok(()),
            Length::Full => {
                let test = ["test", "--workspace", "--locked", "--test", "all", "--", "lose_nothing"];
                run(cargo(&test).env("FULMAR_ROUNDS", "50"))
            }
        }),
        ("fuzzers of the network", &|| fuzz(seconds)),
        ("switches", &|| match length {
            // Less of that is among the tests.
            Length::Slice => Ok(()),
            Length::Full => {
                let test =
                    ["test", "--workspace", "--locked", "--test", "all", "--", "barrier::", "garbage::"];
                run(cargo(&test).env("FULMAR_ROUNDS", "100000").env("FULMAR_GARBAGE", "10000"))
            }
        }),
        ("memory", &|| binary("soak", &["memory", "--cache", cache])),
    ])
}

fn binary(name: &str, arguments: &[&str]) -> Result {
    run(&mut program(name, arguments))
}

fn program(name: &str, arguments: &[&str]) -> Command {
    let cargo_run = ["run", "--release", "--locked", "-p", "fulmar-conformance", "--bin", name, "--"];
    let mut command = cargo(&cargo_run);
    command.args(arguments);
    command
}
