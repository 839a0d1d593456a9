//! Servers that are processes of their own.

use crate::memory;
use crate::workload::Error;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A server's process.
pub(crate) struct Server {
    process: Child,
    /// The memory that it took at first, bytes.
    before: u64,
}

impl Server {
    /// `fulmar serve` with these arguments, which listens at `address`.
    pub(crate) fn serve(
        program: &Path,
        arguments: &[&str],
        address: &str,
        log: &Path,
    ) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.arg("serve").args(arguments);
        Self::start(command, log, || TcpStream::connect(address).is_ok())
    }

    /// Starts one, which writes its log to this file, and waits until it `listens`.
    pub(crate) fn start(mut command: Command, log: &Path, listens: impl Fn() -> bool) -> Result<Self, Error> {
        let log = File::options().append(true).create(true).open(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut server = Self { process: command.spawn()?, before: 0 };
        while !listens() {
            server.is_up()?;
            thread::sleep(Duration::from_millis(10));
        }
        server.before = server.memory("VmRSS")?;
        Ok(server)
    }

    /// Whether it has not ended.
    pub(crate) fn is_up(&mut self) -> Result<(), Error> {
        match self.process.try_wait()? {
            Some(status) => Err(Error::Breach(format!("the server has ended: {status}"))),
            None => Ok(()),
        }
    }

    /// How much more memory it has taken at the most than at first, bytes.
    pub(crate) fn growth(&self) -> io::Result<u64> {
        Ok(self.memory("VmHWM")?.saturating_sub(self.before))
    }

    pub(crate) fn memory(&self, line: &str) -> io::Result<u64> {
        memory::of_process(&self.process.id().to_string(), line)
    }

    /// For how long it has had a processor, in all its threads that there are and were: `utime` and `stime` of proc_pid_stat(5).
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        /// Linux counts hundredths of a second there, whatever its timer does.
        const TICK: Duration = Duration::from_millis(10);
        let told = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The name before them may have spaces in it.
        let fields = told.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Option<u32> = fields.skip(11).take(2).map(|ticks| ticks.parse::<u32>().ok()).sum();
        ticks.map(|ticks| TICK * ticks).ok_or_else(|| io::Error::other(format!("stat says {told:?}")))
    }

    pub(crate) fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
