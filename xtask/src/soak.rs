//! Long runs: the conformance crate's `soak` and `disk` binaries, and tests of which more is asked, with budgets.

use crate::chaos;
use crate::fuzz::fuzz;
use crate::gate::simulate;
use crate::run::{Build, Result, Step, build_trial, cargo, command, run, run_tests, side_by_side, steps};

/// How long to soak.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// Minutes: what CI runs.
    Slice,
    /// Hours: what a release runs.
    Full,
}

impl Length {
    /// What is measured, or meets what users meet.
    const fn build(self) -> Build {
        match self {
            Self::Slice => Build::Tests,
            Self::Full => Build::Release,
        }
    }
}

pub(crate) fn soak(length: Length) -> Result {
    let (kills, cuts, failures, transfers, cache, statements, scripts, seconds) = match length {
        Length::Slice => ("25", "150", "60", "500", "40", "100000", "index-random-", "10"),
        Length::Full => ("1000", "3000", "1000", "100000", "256", "1000000", "", "1200"),
    };
    let tests = Build::Tests.make()?;
    let program = |name: &str, arguments: &[&str]| command(tests.join(name), arguments);
    let binary = |name: &str, arguments: &[&str]| run(&mut program(name, arguments));
    let database: [Step<'_>; 5] = [
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
    ];
    let memory: Step<'_> = ("memory", &|| binary("soak", &["memory", "--cache", cache]));
    let chaos: Step<'_> = ("chaos", &|| match length {
        Length::Slice => chaos::slice(),
        Length::Full => chaos::whole(),
    });
    let rest: [Step<'_>; 7] = [
        ("fuzzers", &|| fuzz(seconds)),
        ("simulations", &|| match length {
            // One in twenty-five of them is among the tests.
            Length::Slice => Ok(()),
            Length::Full => simulate(25),
        }),
        ("members that say anything", &|| match length {
            // Two of them are among the tests.
            Length::Slice => Ok(()),
            Length::Full => {
                let test = ["test", "--workspace", "--locked", "--test", "all", "--", "says_anything"];
                run_tests(cargo(&test).env("FULMAR_ROUNDS", "200"))
            }
        }),
        ("replicas killed and stopped", &|| match length {
            // A few rounds are among the tests.
            Length::Slice => Ok(()),
            Length::Full => {
                let test = ["test", "--workspace", "--locked", "--test", "all", "--", "lose_nothing"];
                run_tests(cargo(&test).env("FULMAR_ROUNDS", "50"))
            }
        }),
        ("switches", &|| match length {
            // Less of that is among the tests.
            Length::Slice => Ok(()),
            Length::Full => {
                let test =
                    ["test", "--workspace", "--locked", "--test", "all", "--", "barrier::", "garbage::"];
                run_tests(cargo(&test).env("FULMAR_ROUNDS", "100000").env("FULMAR_GARBAGE", "10000"))
            }
        }),
        ("agreement among liars", &|| {
            let (parts, random, hunts) = match length {
                Length::Slice => ("500", "1", "10"),
                Length::Full => ("1", "100", "100"),
            };
            let parts = [["exhaustive", parts], ["random", random], ["hunt", hunts]];
            parts.iter().try_for_each(|part| binary("examples/soak", part))
        }),
        ("processes that find each other", &|| {
            let seeds = match length {
                Length::Slice => "2",
                Length::Full => "50",
            };
            binary("examples/crowd", &[seeds])
        }),
    ];
    // Of the slice nobody judges how long servers made their clients wait: most of the time they wait themselves.
    let (beside, alone) = match length {
        Length::Slice => (vec![memory, chaos], vec![]),
        Length::Full => (vec![memory], vec![chaos]),
    };
    side_by_side(&[&database, &rest, &beside])?;
    // They measure time, so nothing else runs meanwhile.
    let measured: [Step<'_>; 2] = [
        ("small databases", &|| {
            let bounds: &[&str] = match length {
                Length::Slice => &[],
                Length::Full => &["--bounded"],
            };
            run(&mut command(build_trial(length.build())?.join("soak"), &[&["small"], bounds].concat()))
        }),
        ("hostile connections", &|| {
            let seconds = match length {
                Length::Slice => "10",
                Length::Full => "1800",
            };
            let soak = build_trial(length.build())?.join("soak");
            run(&mut command(soak, &["hostile", "--seconds", seconds, "--seed", "1"]))
        }),
    ];
    steps(&[measured.to_vec(), alone].concat())
}
