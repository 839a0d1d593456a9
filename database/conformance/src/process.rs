//! Servers that are processes of their own.

use crate::memory;
use crate::workload::Error;
use fulmar_cluster::Cluster;
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
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

/// How many servers, and replicas of all that they hold.
const REPLICAS: usize = 3;

/// Three servers of a cluster on loopback, with three replicas of all that they hold.
pub(crate) struct Servers {
    program: PathBuf,
    /// Of their files.
    directory: PathBuf,
    pub(crate) addresses: Vec<String>,
    running: Vec<Server>,
}

impl Servers {
    /// Starts servers of `program`; returns when all of them keep the clock and the map.
    pub(crate) fn start(program: &Path, directory: &Path) -> Result<Self, Error> {
        std::fs::write(directory.join("first.toml"), format!("replicas = {REPLICAS}\n"))?;
        let mut servers = Self {
            program: program.into(),
            directory: directory.into(),
            addresses: Vec::new(),
            running: Vec::new(),
        };
        for _ in 0..REPLICAS {
            servers.addresses.push(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string());
        }
        servers.run("--found")?;
        while Cluster::meet(&servers.addresses[0]).map_err(io::Error::other)?.map.managers().len() < REPLICAS
        {
            servers.are_up()?;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(servers)
    }

    /// Kills all of them, and starts them again.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.running.drain(..).try_for_each(Server::kill)?;
        // Each knows by its files what it is.
        self.run("--join")
    }

    /// Starts them: the first is told to `--found` the cluster, or to `--join` the second; the others join the first.
    fn run(&mut self, first: &str) -> Result<(), Error> {
        let settings = self.directory.join("first.toml").display().to_string();
        for (number, address) in self.addresses.iter().enumerate() {
            let data = self.directory.join((number + 1).to_string()).display().to_string();
            let joins = match (number, first) {
                (0, "--found") => ["--config", &settings, "--found"].to_vec(),
                (0, _) => ["--config", &settings, "--join", &self.addresses[1]].to_vec(),
                _ => ["--join", &self.addresses[0]].to_vec(),
            };
            let given = [["--data", &data, "--listen", address].as_slice(), &joins].concat();
            let log = self.directory.join(format!("{}.log", number + 1));
            self.running.push(Server::serve(&self.program, &given, address, &log)?);
        }
        Ok(())
    }

    /// Whether none of them has ended.
    pub(crate) fn are_up(&mut self) -> Result<(), Error> {
        self.running.iter_mut().try_for_each(Server::is_up)
    }

    /// What one of them has most of.
    pub(crate) fn most(&self, of: impl Fn(&Server) -> io::Result<u64>) -> Result<u64, Error> {
        let all = self.running.iter().map(of).collect::<io::Result<Vec<_>>>()?;
        Ok(all.into_iter().max().unwrap_or_default())
    }

    /// How a client calls a database on them.
    pub(crate) fn name(&self, database: &str) -> String {
        format!("fulmar://{}/{database}", self.addresses.join(","))
    }

    /// For how long each has had a processor.
    pub(crate) fn times(&self) -> Result<Vec<Duration>, Error> {
        let times = self.running.iter().map(Server::processor_time);
        Ok(times.collect::<Result<_, _>>()?)
    }
}
