//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many descriptors as the process may have: most programs start with few, for the sake of `select(2)`.
pub(crate) fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, fewer clients are let in.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
