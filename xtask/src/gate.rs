//! `cargo xtask test`: what every change must pass.

use crate::run::{Result, cargo, command, metadata, output, root, run, run_tests, side_by_side, steps};
use crate::{deny, tidy};
use std::collections::BTreeSet;
use std::process::Command;

/// How many runs of simulated replicas are judged, each by what must hold in it…
const SEEDS_OF_REPLICAS: u32 = 2_000;
/// …how many of a cluster, and of one whose groups have replicas: these take longer. Each commit plays others.
const SEEDS_OF_CLUSTERS: u32 = 1_000;
const SEEDS_OF_BOTH: u32 = 250;
const JUDGED: [&str; 5] = [
    "what_clients_see_is_snapshot_isolation",
    "every_snapshot_holds_the_same_sum",
    "names_are_unique_and_what_is_noted_is_there",
    "a_server_can_be_drained",
    "exclusive_transactions_are_alone",
];

/// Tests of programs, which wait for processes, disks and timers most of the time, are targets of this name.
const OF_PROGRAMS: &str = "all";

pub(crate) fn test() -> Result {
    // Built first, as whoever builds has the directory for himself.
    let built = steps(&[
        ("tidy", &tidy::tidy),
        ("lock files", &lock_files),
        ("fmt", &|| run(&mut cargo(&["fmt", "--all", "--check"]))),
        ("build", &|| run(&mut tests(&["--no-run"]))),
    ]);
    let tested = side_by_side(&[
        &[
            ("tests of programs", &|| run_tests(&mut tests(&["--test", OF_PROGRAMS]))),
            ("tests on a server", &|| on_servers("1", &["fuzz::"])),
            ("tests on three servers", &|| on_servers("3", &[])),
        ],
        &[
            ("other tests", &other_tests),
            ("examples in documentation", &|| run_tests(&mut tests(&["--doc"]))),
            ("simulations", &|| simulate(1)),
        ],
        &[
            ("clippy", &|| {
                run(&mut cargo(&[
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--locked",
                    "--",
                    "-D",
                    "warnings",
                ]))
            }),
            ("docs", &|| {
                let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
                run(doc.env("RUSTDOCFLAGS", "-D warnings"))
            }),
            ("deny", &deny::deny),
        ],
    ]);
    built.and(tested)
}

/// Tests of the whole workspace, so that nothing is built anew with other features.
fn tests(which: &[&str]) -> Command {
    let mut test = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    test.args(which);
    test
}

/// All tests that are none of programs.
fn other_tests() -> Result {
    let metadata = metadata(&["--no-deps"])?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let names =
        targets.filter(|target| target["kind"][0] == "test").filter_map(|target| target["name"].as_str());
    let names: BTreeSet<&str> = names.filter(|name| *name != OF_PROGRAMS).collect();
    let mut others = tests(&["--lib", "--bins"]);
    others.args(names.into_iter().flat_map(|name| ["--test", name]));
    run_tests(&mut others)
}

/// Workspaces of their own, which the root's `Cargo.toml` leaves out.
const APART: [&str; 3] = ["bench/engines", "e2e/shell", "network/fuzz"];

/// Whether what depends on crates of this workspace from outside knows what these depend on. Nothing is built: that would take minutes.
fn lock_files() -> Result {
    APART.iter().try_for_each(|directory| {
        let manifest = root().join(directory).join("Cargo.toml");
        run(cargo(&["update", "--workspace", "--locked", "--quiet", "--manifest-path"]).arg(manifest))
    })
}

/// Simulations, with so many times as many seeds as the tests take. Those of the tests are always the same; these are others for each commit.
pub(crate) fn simulate(times: u32) -> Result {
    let first = first_seed()?;
    println!("seeds from {first}, as of this commit");
    let seeds = |which: &[&str], tests: &[&str], count| seeds(which, tests, first, count);
    steps(&[
        ("seeds of clusters", &|| seeds(&["--test", "cluster"], &JUDGED, times * SEEDS_OF_CLUSTERS)),
        ("seeds of clusters with replicas", &|| {
            // Those of five take half of the time.
            let tests: &[&str] = if times == 1 { &["replicas", "--skip", "five"] } else { &["replicas"] };
            seeds(&["--test", "cluster"], tests, times * SEEDS_OF_BOTH)
        }),
        ("seeds of replicas", &|| seeds(&["--lib"], &["is_linearizable"], times * SEEDS_OF_REPLICAS)),
    ])
}

/// A number that the commit in the work tree stands for.
fn first_seed() -> Result<u64> {
    let commit = output(&mut command("git", &["rev-parse", "HEAD"]))?;
    let digits = commit.get(..10).ok_or_else(|| format!("{commit}: no commit"))?;
    u64::from_str_radix(digits, 16).map_err(|error| format!("{commit}: {error}"))
}

/// Some simulations with so many seeds, from the first on.
fn seeds(which: &[&str], named: &[&str], first: u64, count: u32) -> Result {
    let mut test = tests(which);
    test.env("FULMAR_FIRST_SEED", first.to_string()).env("FULMAR_SEEDS", count.to_string());
    run_tests(test.arg("--").args(named))
}

/// The tests that see SQL only, with their databases on a cluster of so many servers, and more that pass there. The fuzz
/// compares rowids, some of which several servers skip after a ROLLBACK.
fn on_servers(count: &str, more: &[&str]) -> Result {
    let mut test = tests(&["--test", OF_PROGRAMS, "--"]);
    test.args(["hermitage::", "kill::", "schema::", "slt::", "spread::", "transfers::", "unread::"])
        .args(more);
    run_tests(test.env("FULMAR_ON_SERVERS", count))
}
