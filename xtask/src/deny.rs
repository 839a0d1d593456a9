//! Licences, banned crates and sources of the dependencies: `cargo deny` with `deny.toml`.

use crate::run::{Result, cargo, command, run, tools};
use std::path::PathBuf;

const VERSION: &str = "0.20.2";

/// Advisories are not among the checks: their database lives on a git host, and this must pass without one.
pub(crate) fn deny() -> Result {
    run(&mut cargo(&["fetch", "--locked"]))?;
    let deny = installed()?;
    run(&mut command(deny, &["--offline", "--all-features", "check", "licenses", "bans", "sources"]))
}

/// Cargo-deny of our version, compiled on first use.
fn installed() -> Result<PathBuf> {
    let home = tools().join(format!("cargo-deny-{VERSION}"));
    let program = home.join("bin/cargo-deny");
    if !program.exists() {
        println!("compiling cargo-deny {VERSION} once, into {}: some minutes", home.display());
        let root = home.to_string_lossy();
        // It works for a second; optimised it would be compiled for minutes more.
        let install = ["install", "--debug", "--locked", "--root", &root, "--version", VERSION, "cargo-deny"];
        run(cargo(&install).env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
    }
    Ok(program)
}
