//! Fuzzers of what is taken from strangers, and from members of a council that lie: `network/fuzz`, as `cargo fuzz` lays them out, built as it builds them.

use crate::run::{Result, cargo, command, root, run};

/// What there is to be fuzzed.
const TARGETS: [&str; 7] = ["packet", "openflow", "ovsdb", "flow_mods", "discovery", "council", "databases"];
/// What `cargo fuzz` has the compiler put in, so that the fuzzer sees which way the code takes; all that a stable one can.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Fuzzes each of them for so long. What is found is in `network/fuzz/artifacts`; inputs that led to new code are in `network/fuzz/target/found`.
pub(crate) fn fuzz(seconds: &str) -> Result {
    let directory = root().join("network/fuzz");
    // For a target that is named, so that build scripts are built without these flags.
    let target = "x86_64-unknown-linux-gnu";
    let mut build = cargo(&["build", "--release", "--locked", "--target", target, "--manifest-path"]);
    run(build.arg(directory.join("Cargo.toml")).env("RUSTFLAGS", COVERAGE))?;
    let (artifacts, found) = (directory.join("artifacts"), directory.join("target/found"));
    for fuzzer in TARGETS {
        // New inputs go into the first directory.
        let found = found.join(fuzzer);
        let made = std::fs::create_dir_all(&artifacts).and_then(|()| std::fs::create_dir_all(&found));
        made.map_err(|error| format!("{}: {error}", found.display()))?;
        let mut fuzz = command(directory.join("target").join(target).join("release").join(fuzzer), &[]);
        fuzz.arg(&found).arg(directory.join("corpus").join(fuzzer));
        fuzz.args([
            &format!("-max_total_time={seconds}"),
            "-max_len=4096",
            "-verbosity=0",
            "-print_final_stats=1",
        ]);
        run(fuzz.arg(format!("-artifact_prefix={}/{fuzzer}-", artifacts.display())))?;
    }
    Ok(())
}
