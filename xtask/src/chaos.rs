//! Faults on real servers and clients: the conformance crate's `soak chaos`, once for each protocol.

use crate::run::{Build, Result, build_trial, run};
use std::process::Command;
use std::time::SystemTime;

/// Without replicas.
const ALONE: &str = "none";
/// How servers can agree.
const PROTOCOLS: [&str; 4] = ["viewstamped", "fast-paxos", "speculative-paxos", ALONE];

/// A few faults under each protocol, on the build of the tests.
pub(crate) fn slice() -> Result {
    chaos(Build::Tests, &PROTOCOLS, "6", None, &[])
}

/// Hours of them, on a machine that does nothing else.
pub(crate) fn whole() -> Result {
    PROTOCOLS.into_iter().try_for_each(|protocol| under(protocol, None))
}

/// Those under one protocol.
pub(crate) fn under(protocol: &str, seed: Option<&str>) -> Result {
    // Without replicas everybody waits for a server that is away.
    let bounds: &[&str] = if protocol == ALONE { &[] } else { &["--pauses", "bounded"] };
    chaos(Build::Release, &[protocol], "500", seed, bounds)
}

fn chaos(build: Build, protocols: &[&str], events: &str, seed: Option<&str>, more: &[&str]) -> Result {
    let programs = build_trial(build)?;
    let drawn = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs().to_string();
    let seed = seed.unwrap_or(&drawn);
    for protocol in protocols {
        let logs = programs.join("chaos").join(format!("{protocol}-{seed}"));
        let mut soak = Command::new(programs.join("soak"));
        soak.args(["chaos", "--protocol", protocol, "--events", events, "--seed", seed, "--logs"])
            .arg(logs)
            .args(more);
        run(&mut soak)?;
    }
    Ok(())
}
