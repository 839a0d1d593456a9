//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One of three servers with a database had 38 open before clients came (2026-11-28), and half of all are for connections.
const LEAST: u64 = 96;

/// Takes as many descriptors as the process may have: most programs start with few, for the sake of `select(2)`.
pub(crate) fn allow_descriptors() -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, fewer clients are let in: `fulmar_transport::Limits::connections`.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    match getrlimit(Resource::Nofile).current {
        Some(few) if few < LEAST => Err(format!(
            "this process may have {few} files and connections open, and needs {LEAST}: \
             raise the limit (`ulimit -n`, or `LimitNOFILE` of a systemd unit)"
        )),
        _ => Ok(()),
    }
}
