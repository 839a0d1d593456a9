//! With whose rights a server serves.

use nix::sys::prctl::set_dumpable;
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// As root, takes the rights of the user whose directory of data it is, for good: one start by root would leave files there that lock
/// this user's server out. Whose the directory is in which one is to be made may put there what it likes: it is made with this user's rights.
///
/// # Errors
/// If these rights cannot be had.
pub(super) fn take_those_of_owner(data: &Path) -> Result<(), String> {
    let failed = |why: io::Error| format!("{}: {why}", data.display());
    let there = nearest(&std::path::absolute(data).map_err(failed)?).map_err(failed)?;
    let (owner, group) = (Uid::from_raw(there.uid()), Gid::from_raw(there.gid()));
    if !geteuid().is_root() || owner.is_root() {
        return Ok(());
    }
    let taken = setgroups(&[group]).and_then(|()| setgid(group)).and_then(|()| setuid(owner));
    taken.map_err(|why| {
        format!(
            "{}: it belongs to user {owner}, and root, which is to serve it here, cannot take this user's rights ({why}): start the \
             server as this user, or make the directory and what is in it root's",
            data.display()
        )
    })?;
    // As before: else the process is not shown its own files in /proc as its own.
    set_dumpable(true).map_err(|why| format!("cannot go on as user {owner}: {why}"))?;
    tracing::info!(
        kind = "rights",
        "{} belongs to user {owner}: serving with this user's rights, and not root's",
        data.display()
    );
    Ok(())
}

/// The directory, or the nearest one above it that is there.
fn nearest(data: &Path) -> io::Result<Metadata> {
    let absent =
        |found: &io::Result<Metadata>| found.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
    let found = data.ancestors().map(fs::metadata).find(|found| !absent(found));
    found.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
}
