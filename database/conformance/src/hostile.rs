//! Connections that mean no good, to real servers, while a client goes on whose waits are measured.
//!
//! They greet as clients and as servers, or not at all; say what may be a message, what has the form of a good one, or neither; read what is
//! answered, or do not. What a client may do by right to what others have is left out, as nobody's identity is looked at yet.

mod connection;
pub mod database;
pub mod discovery;
mod replication;
mod said;
pub mod services;
pub mod switch;

use crate::workload::Error;
use fulmar_node::Random;
use std::io;
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
