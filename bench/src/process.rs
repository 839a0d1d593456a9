//! Peers' servers: installed if missing, started for the benchmark alone, ended with it.

use crate::fault::{Fault, Wrong};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to begin.
const START: Duration = Duration::from_secs(30);
/// Where Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// A directory that goes away.
pub(crate) struct Temporary(TempDir);

impl Temporary {
    pub(crate) fn new() -> Result<Self, Fault> {
        Ok(Self(Self::named().tempdir()?))
    }

    /// One whose files are in memory.
    pub(crate) fn in_memory() -> Result<Self, Fault> {
        let directory = Self::named().tempdir_in(MEMORY);
        Ok(Self(directory.map_err(|why| Wrong(format!("{MEMORY}: {why}")))?))
    }

    fn named() -> tempfile::Builder<'static, 'static> {
        let mut named = tempfile::Builder::new();
        named.prefix("fulmar-bench-");
        named
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it to a user of the system.
    pub(crate) fn give_to(&self, user: &User) -> Result<(), Fault> {
        Ok(chown(self.path(), Some(user.id), Some(user.group))?)
    }
}

/// A running server, and the directory that it works in. It is killed in the end: what it holds is not to be kept.
pub(crate) struct Started {
    child: Child,
    _directory: Temporary,
}

impl Started {
    pub(crate) fn new(mut command: Command, directory: Temporary) -> Result<Self, Fault> {
        let program = command.get_program().to_owned();
        command.stdin(Stdio::null()).current_dir(directory.path());
        let child =
            command.spawn().map_err(|why| Wrong(format!("cannot start {}: {why}", program.display())))?;
        Ok(Self { child, _directory: directory })
    }

    pub(crate) fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the server lets somebody connect.
    pub(crate) fn wait<C>(&mut self, mut connect: impl FnMut() -> Result<C, Fault>) -> Result<C, Fault> {
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

    /// Sends it a signal that ends it. If that cannot be sent, the server is killed.
    pub(crate) fn ask_to_end(&mut self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        if !sent.is_ok_and(|status| status.success()) {
            // It may have ended already.
            let _ = self.child.kill();
        }
    }

    /// Waits for a server that was asked to end.
    pub(crate) fn wait_for_end(&mut self) {
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
pub(crate) struct User {
    name: &'static str,
    id: u32,
    group: u32,
}

impl User {
    /// Looks one up.
    pub(crate) fn find(name: &'static str) -> Result<Self, Fault> {
        let number = |option: &str| -> Result<u32, Fault> {
            Ok(output(Command::new("id").args([option, name]))?.trim().parse()?)
        };
        Ok(Self { name, id: number("-u")?, group: number("-g")? })
    }

    /// `program`, run as this user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", self.name, "--regid", self.name, "--clear-groups", "--"]).arg(program);
        command
    }
}

/// Whether this process may act as others.
pub(crate) fn is_root() -> Result<bool, Fault> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

/// Runs a command to its end, and returns what it says.
pub(crate) fn output(command: &mut Command) -> Result<String, Fault> {
    let name = command.get_program().display().to_string();
    let done = command.stdin(Stdio::null()).output().map_err(|why| Wrong(format!("{name}: {why}")))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(Wrong(format!("{name}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim())).into())
}

/// Finds a program, and installs the Debian package that brings it if it is not there.
pub(crate) fn find_or_install(
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
        .env("DEBIAN_FRONTEND", "noninteractive")
        // What the package would start by itself stays as it is.
        .env("RUNLEVEL", "1");
    output(&mut install)?;
    find().ok_or_else(|| Wrong(format!("{program} is missing, though {package} is installed")).into())
}

/// A program on the path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// Ports on loopback that nobody listens on.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], Fault> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        // Kept, so that the next one is another.
        listeners.push(listener);
    }
    Ok(ports)
}
