//! Disks that lose power, and calls that fail.

use fulmar_conformance::disk::{failures, states};
use std::process::Command;

/// The program that does `role` on a disk that is watched.
fn worker(role: &str) -> impl FnMut() -> Command {
    move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disk"));
        command.arg(role);
        command
    }
}

#[test]
fn acknowledged_commits_outlive_a_power_cut() {
    let plan = states::Plan { states: 20, seed: 1, lies: false };
    states::run(&mut worker("work"), plan).unwrap_or_else(|breach| panic!("{breach}"));
}

#[test]
fn a_disk_that_only_says_that_it_syncs_is_noticed() {
    // More than one trace: where threads commit together, few moments show it.
    let plan = states::Plan { states: 100, seed: 1, lies: true };
    states::run(&mut worker("work"), plan).expect_err("what was acknowledged is lost");
}

#[test]
fn acknowledged_commits_outlive_calls_that_fail() {
    let plan = failures::Plan { rounds: 8, seed: 1 };
    let seen = failures::run(&mut worker("endure"), plan).unwrap_or_else(|breach| panic!("{breach}"));
    assert!(seen.struck > 0 && seen.refused > 0, "{seen:?}");
}
