//! `cargo xtask test`: what every change must pass.

use crate::run::{Result, cargo, run, steps};
use crate::{deny, tidy};

/// How many histories of a simulated cluster are judged.
const SEEDS: &str = "20000";

pub(crate) fn test() -> Result {
    steps(&[
        ("tidy", &tidy::tidy),
        ("fmt", &|| run(&mut cargo(&["fmt", "--all", "--check"]))),
        ("clippy", &|| {
            run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
        }),
        ("tests", &|| run(&mut cargo(&["test", "--workspace", "--locked"]))),
        ("tests on a server", &|| on_servers("1", &["fuzz::"])),
        ("tests on three servers", &|| on_servers("3", &[])),
        ("seeds", &|| {
            let mut test = cargo(&[
                "test",
                "--profile",
                "sim",
                "--locked",
                "-p",
                "fulmar-dbt",
                "--test",
                "remote",
                "--",
            ]);
            run(test.arg("what_clients_see").env("FULMAR_SEEDS", SEEDS))
        }),
        ("docs", &|| {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
            run(doc.env("RUSTDOCFLAGS", "-D warnings"))
        }),
        ("deny", &deny::deny),
    ])
}

/// The tests that see SQL only, with their databases on a cluster of so many servers, and more that pass there. The fuzz
/// compares rowids, some of which several servers skip after a ROLLBACK.
fn on_servers(count: &str, more: &[&str]) -> Result {
    // Of the whole workspace, so that nothing is built anew with other features.
    let mut test = cargo(&["test", "--workspace", "--locked", "--test", "all", "--"]);
    test.args(["hermitage::", "kill::", "schema::", "slt::", "spread::", "transfers::", "unread::"])
        .args(more);
    run(test.env("FULMAR_ON_SERVERS", count))
}
