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

    /// For how long it has had a processor, in all its threads.
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let first = told.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
            nanoseconds += first.ok_or_else(|| io::Error::other(format!("schedstat says {told:?}")))?;
        }
        Ok(Duration::from_nanos(nanoseconds))
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
