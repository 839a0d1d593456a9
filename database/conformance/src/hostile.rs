//! Connections that mean no good, to real servers, while a client goes on whose waits are measured.
//!
//! They greet as clients and as servers, or not at all; say what may be a message, what has the form of a good one, or neither; read what is
//! answered, or do not. What a client may do by right to what others have is left out, as nobody's identity is looked at yet.

mod connection;
pub mod database;
pub mod discovery;
mod said;
pub mod services;
pub mod switch;

use crate::memory;
use crate::workload::Error;
use fulmar_node::Random;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// So much more memory than before may a server take, bytes.
pub const GROWTH: u64 = 256 << 20;
/// So long may the client wait.
pub const WAIT: Duration = Duration::from_secs(1);

const ATTACKERS: u64 = 3;

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Connections that meant no good.
    pub connections: u64,
    /// What was sent on these, frames.
    pub frames: u64,
    /// What the client that meant well has had done.
    pub commits: u64,
    /// The longest that it has waited for one of these.
    pub longest: Duration,
    /// Memory that a server has taken at the most, over what it had before, bytes.
    pub growth: u64,
}

impl Tally {
    /// Attacks for so long by `connect`, which connects once and counts the frames that it sends, while `commit` has something done again
    /// and again, and is told how often it has.
    fn of(
        length: Duration,
        seed: u64,
        connect: impl Fn(&mut Random, &mut u64) -> io::Result<()> + Sync,
        mut commit: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let end = Instant::now() + length;
        let attack = |mut random: Random| {
            let (mut connections, mut frames) = (0, 0);
            while Instant::now() < end {
                connections += 1;
                // Whoever is refused, or whose connection ends, comes again.
                let _ = connect(&mut random, &mut frames);
            }
            (connections, frames)
        };
        let mut tally = Self::default();
        thread::scope(|scope| {
            let attackers: Vec<_> = (0..ATTACKERS)
                .map(|attacker| {
                    let attack = &attack;
                    scope.spawn(move || attack(Random::new(seed << 8 | attacker)))
                })
                .collect();
            let mut committed = Ok(());
            while committed.is_ok() && Instant::now() < end {
                let begun = Instant::now();
                committed = commit(tally.commits);
                tally.longest = tally.longest.max(begun.elapsed());
                tally.commits += 1;
            }
            for attacker in attackers {
                let (connections, frames): (u64, u64) =
                    attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (tally.connections, tally.frames) = (tally.connections + connections, tally.frames + frames);
            }
            committed
        })?;
        Ok(tally)
    }

    /// Whether the client had to wait for too long, or a server has taken too much.
    fn judge(self) -> Result<Self, Error> {
        if self.longest > WAIT || self.growth > GROWTH {
            return Err(Error::Breach(format!("{self:?}")));
        }
        Ok(self)
    }
}

/// A server's process.
struct Server {
    process: Child,
    /// The memory that it took at first, bytes.
    before: u64,
}

impl Server {
    /// `fulmar serve` with these arguments, which listens at `address`.
    fn serve(program: &Path, arguments: &[&str], address: &str, log: &Path) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.arg("serve").args(arguments);
        Self::start(command, log, || TcpStream::connect(address).is_ok())
    }

    /// Starts one, which writes its log to this file, and waits until it `listens`.
    fn start(mut command: Command, log: &Path, listens: impl Fn() -> bool) -> Result<Self, Error> {
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
    fn is_up(&mut self) -> Result<(), Error> {
        match self.process.try_wait()? {
            Some(status) => Err(Error::Breach(format!("the server has ended: {status}"))),
            None => Ok(()),
        }
    }

    /// How much more memory it has taken at the most than at first, bytes.
    fn growth(&self) -> io::Result<u64> {
        Ok(self.memory("VmHWM")?.saturating_sub(self.before))
    }

    fn memory(&self, line: &str) -> io::Result<u64> {
        memory::of_process(&self.process.id().to_string(), line)
    }

    fn kill(mut self) -> io::Result<()> {
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
