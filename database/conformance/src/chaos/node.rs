//! A server's process.

use super::Failure;
use super::network::Network;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What `fulmar-disturb` looks at: one number after the other, of eight bytes, little-endian.
const OFFSET: u64 = 0;
const HANGS: u64 = 8;

pub(super) struct Node {
    process: Option<Child>,
    /// What is told to the library in the process.
    control: File,
    control_path: PathBuf,
    log: PathBuf,
}

/// The programs of a run: beside this one.
pub(super) fn beside(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is not there: build it first", path.display()).into())
    }
}

impl Node {
    pub(super) fn new(control: &Path, log: PathBuf) -> Result<Self, Failure> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(control)?;
        file.set_len(16)?;
        Ok(Self { process: None, control: file, control_path: control.into(), log })
    }

    /// Starts it on a host.
    pub(super) fn start(&mut self, host: usize, arguments: &[String]) -> Result<(), Failure> {
        let mut log = OpenOptions::new().append(true).create(true).open(&self.log)?;
        writeln!(log, "-- at {}: fulmar serve {}", super::now(), arguments.join(" "))?;
        let mut command = Command::new(beside("fulmar")?);
        command.arg("serve").args(arguments);
        command.env("LD_PRELOAD", beside("libfulmar_disturb.so")?).env("FULMAR_DISTURB", &self.control_path);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let spawned = std::thread::scope(|scope| {
            let thread = scope.spawn(|| Network::enter(host).and_then(|()| Ok(command.spawn()?)));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        self.process = Some(spawned?);
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let Some(process) = &self.process else { return Ok(()) };
        let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).ok_or("a process has no number")?;
        // It may have ended.
        if let Err(error) = kill_process(id, signal)
            && error != rustix::io::Errno::SRCH
        {
            return Err(error.into());
        }
        Ok(())
    }

    /// Waits until it has ended.
    pub(super) fn wait(&mut self) -> Result<(), Failure> {
        if let Some(mut process) = self.process.take() {
            process.wait()?;
        }
        Ok(())
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| !matches!(process.try_wait(), Ok(None)))
    }

    /// Its clock is by so many seconds ahead.
    pub(super) fn leap(&mut self, seconds: i64) -> Result<(), Failure> {
        self.tell(OFFSET, seconds)
    }

    /// Its syncs wait, or do no more.
    pub(super) fn hang(&mut self, hangs: bool) -> Result<(), Failure> {
        self.tell(HANGS, hangs.into())
    }

    fn tell(&mut self, place: u64, number: i64) -> Result<(), Failure> {
        self.control.seek(SeekFrom::Start(place))?;
        Ok(self.control.write_all(&number.to_le_bytes())?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Exit status and text of `fulmar status`, asked from where the caller is.
pub(super) fn status(address: &str) -> Result<(bool, String), Failure> {
    let output =
        Command::new("timeout").arg("10").arg(beside("fulmar")?).args(["status", address]).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Shuts connections of a process that lives, as if the other side had.
pub(super) fn break_connections(process: u32) -> Result<usize, Failure> {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("a process has no number")?;
    let handle = match rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(0),
        handle => handle?,
    };
    let mut broken = 0;
    for entry in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        let Ok(entry) = entry else { continue };
        let is_socket =
            std::fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"));
        let Some(number) =
            entry.file_name().to_str().and_then(|name| name.parse().ok()).filter(|_| is_socket)
        else {
            continue;
        };
        // It may have been closed since.
        let Ok(socket) =
            rustix::process::pidfd_getfd(&handle, number, rustix::process::PidfdGetfdFlags::empty())
        else {
            continue;
        };
        broken += usize::from(rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).is_ok());
    }
    Ok(broken)
}

/// The processes of this program that were started with `word`, and those that they forked.
pub(super) fn processes(word: &str) -> Result<Vec<u32>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended since.
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).nth(1) == Some(word.as_bytes()) {
            found.push(number);
        }
    }
    Ok(found)
}
