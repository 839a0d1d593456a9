//! `cargo xtask test`: what every change must pass.

use crate::run::{Result, cargo, run, steps};
use crate::{deny, tidy};

pub(crate) fn test() -> Result {
    steps(&[
        ("tidy", &tidy::tidy),
        ("fmt", &|| run(&mut cargo(&["fmt", "--all", "--check"]))),
        ("clippy", &|| {
            run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
        }),
        ("tests", &|| run(&mut cargo(&["test", "--workspace", "--locked"]))),
        ("docs", &|| {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
            run(doc.env("RUSTDOCFLAGS", "-D warnings"))
        }),
        ("deny", &deny::deny),
    ])
}
