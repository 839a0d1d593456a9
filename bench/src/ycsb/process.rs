//! Peers' servers: installed if missing, started for the benchmark alone, ended with it.

use super::system::{Fault, Wrong};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to begin.
const START: Duration = Duration::from_secs(30);

/// A directory that goes away.
pub(super) struct Temporary(TempDir);

impl Temporary {
    pub(super) fn new() -> Result<Self, Fault> {
        Ok(Self(tempfile::Builder::new().prefix("fulmar-ycsb-").tempdir()?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it to a user of the system.
    pub(super) fn give_to(&self, user: &User) -> Result<(), Fault> {
        Ok(chown(self.path(), Some(user.id), Some(user.group))?)
    }
}

/// A running server, and the directory that it works in. It is killed in the end: what it holds is not to be kept.
pub(super) struct Started {
    child: Child,
    directory: Temporary,
}

impl Started {
    pub(super) fn new(mut command: Command, directory: Temporary) -> Result<Self, Fault> {
        let program = command.get_program().to_owned();
        command.stdin(Stdio::null()).current_dir(directory.path());
        let child =
            command.spawn().map_err(|why| Wrong(format!("cannot start {}: {why}", program.display())))?;
        Ok(Self { child, directory })
    }

    pub(super) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Waits until the server lets somebody connect.
    pub(super) fn wait<C>(&mut self, mut connect: impl FnMut() -> Result<C, Fault>) -> Result<C, Fault> {
        let begun = Instant::now();
        loop {
            match connect() {
                Ok(connected) => return Ok(connected),
                Err(why) if begun.elapsed() > START => return Err(why),
                Err(_) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(Wrong(format!("the server ended: {status}")).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Started {
    /// Waits for a server that was asked to end.
    pub(super) fn wait_for_end(&mut self) {
        // If it cannot be waited for, it has ended.
        let _ = self.child.wait();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A user of the system.
pub(super) struct User {
    name: &'static str,
    id: u32,
    group: u32,
}

impl User {
    /// Looks one up.
    pub(super) fn find(name: &'static str) -> Result<Self, Fault> {
        let number = |option: &str| -> Result<u32, Fault> {
            Ok(output(Command::new("id").args([option, name]))?.trim().parse()?)
        };
        Ok(Self { name, id: number("-u")?, group: number("-g")? })
    }

    /// `program`, run as this user.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", self.name, "--regid", self.name, "--clear-groups", "--"]).arg(program);
        command
    }
}

/// Whether this process may act as others.
pub(super) fn is_root() -> Result<bool, Fault> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

/// Runs a command to its end, and returns what it says.
pub(super) fn output(command: &mut Command) -> Result<String, Fault> {
    let name = command.get_program().display().to_string();
    let done = command.stdin(Stdio::null()).output().map_err(|why| Wrong(format!("{name}: {why}")))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(Wrong(format!("{name}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim())).into())
}

/// Finds a program, and installs the Debian package that brings it if it is not there.
pub(super) fn find_or_install(
    find: impl Fn() -> Option<PathBuf>,
    program: &str,
    package: &str,
) -> Result<PathBuf, Fault> {
    if let Some(found) = find() {
        return Ok(found);
    }
    if !is_root()? {
        return Err(Wrong(format!("{program} is missing: apt-get install {package}")).into());
    }
    let mut install = Command::new("apt-get");
    install
        .args(["install", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive");
    output(&mut install)?;
    find().ok_or_else(|| Wrong(format!("{program} is missing, though {package} is installed")).into())
}

/// A program on the path.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// A port on loopback that nobody listens on.
pub(super) fn free_port() -> Result<u16, Fault> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
