//! Namespaces of the run's own, so that nothing of it outlives it.

use super::{Failure, output};
use std::io::{self, Read as _};
use std::process::{Command, ExitStatus, Stdio};

/// Runs this program again with `arguments`, as the first process of namespaces of its own.
///
/// # Errors
/// If `unshare` is not there, or may not do that (it needs root).
pub fn again(arguments: &[&str]) -> Result<ExitStatus, Failure> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe()?).args(arguments);
    // `unshare` heeds no interrupt: the other end of this pipe tells the inner process that this one has ended.
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| format!("unshare: {error}"))?;
    let input = child.stdin.take();
    let status = child.wait()?;
    drop(input);
    Ok(status)
}

/// What the first process does first: it ends when the outer one does, and its named networks are nobody else's.
///
/// # Errors
/// If it is not in namespaces of its own.
pub fn settle() -> Result<(), Failure> {
    if std::process::id() != 1 {
        return Err("this is to be started by `soak chaos`, in namespaces of its own".into());
    }
    std::thread::spawn(|| {
        // An error says as much as the end.
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    std::fs::create_dir_all("/run/netns")?;
    output(Command::new("mount").args(["-t", "tmpfs", "none", "/run/netns"])).map(drop)
}
