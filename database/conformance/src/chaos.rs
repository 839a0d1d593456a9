//! Chaos: real servers and clients, while what they rely on fails.
//!
//! *Known as:* fault injection, Jepsen-style testing.
//!
//! Three `fulmar serve` hold a database, with replicas or without, each in a network namespace and on a disk of its own. Client
//! processes, which fork and reconnect, write and read it and tell what they were answered. Faults are drawn from a
//! seed: servers are killed, stopped, wiped, moved and cut off, disks fill, hang and fail, clocks leap, power goes.
//!
//! - [`plan`]: which faults, in which order, for how long.
//! - `network`, `volume`, `node`, `cluster`: what the servers run on, and how it is broken.
//! - [`client`]: what the clients do; [`history`]: what they tell.
//! - [`check`]: whether that history and the database in the end are possible. A function, with a planted history for
//!   each kind of violation.
//! - [`waits`]: how long commits took, and the longest pause of writers for each kind of fault; `stalls`: when it was the machine that paused.
//! - [`run`]: all of it together.
//!
//! The runner is the first process of namespaces of its own ([`apart`]): when it ends, however it ends, the kernel removes
//! the servers, the clients, the networks and the file systems.

pub mod apart;
pub mod check;
pub mod client;
pub mod cluster;
pub mod history;
mod large;
mod network;
mod node;
pub mod plan;
mod replicas;
pub mod run;
mod stalls;
mod volume;
pub mod waits;

/// Why a run could not go on, or what it found.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a program that must succeed; what it prints.
fn output(command: &mut std::process::Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {}", output.status, why.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Microseconds of the machine's monotonic clock: the same for all processes.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1_000
}
