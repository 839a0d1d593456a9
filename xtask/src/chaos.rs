//! Faults on real servers and clients: the conformance crate's `soak chaos`, once for each protocol.

use crate::run::{Result, build_release, cargo, run};
use std::process::Command;
use std::time::SystemTime;

/// How servers can agree.
pub(crate) const PROTOCOLS: [&str; 3] = ["viewstamped", "fast-paxos", "speculative-paxos"];

/// A few faults under each protocol.
pub(crate) fn slice() -> Result {
    chaos(&PROTOCOLS, "6", None, &[])
}

/// Hours of them, on a machine that does nothing else.
pub(crate) fn whole(protocols: &[&str], seed: Option<&str>) -> Result {
    chaos(protocols, "500", seed, &["--pauses", "bounded"])
}

fn chaos(protocols: &[&str], events: &str, seed: Option<&str>, more: &[&str]) -> Result {
    let programs = build_release()?;
    let build = ["build", "--release", "--locked", "-p", "fulmar-conformance", "-p", "fulmar-disturb"];
    run(&mut cargo(&build))?;
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
