//! What a small database costs: time to open and read it, and what three servers that hold some thirty take while nobody asks
//! them for anything.

use crate::database;
use crate::process::Servers;
use crate::workload::Error;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const DATABASES: usize = 30;
/// Each is opened so often.
const OPENINGS: usize = 200;
/// For so long nobody asks for anything; before that, for half of it.
const IDLE: Duration = Duration::from_secs(10);
/// Bytes of rows of the large one that is opened, too.
const LARGE: usize = 100 << 20;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Median time to open an embedded database, read a row and close it: a small one, one of 100 MB, and a small one on servers.
    pub openings: [Duration; 3],
    /// The most memory that one of three servers has, bytes.
    pub memory: u64,
    /// The most of a processor that one of them takes, of 1.
    pub processor: f64,
}

/// The most that is right, of what users have.
const LIMITS: Costs = Costs {
    openings: [Duration::from_micros(500), Duration::from_millis(1), Duration::from_millis(1)],
    memory: 300 << 20,
    processor: 0.02,
};

impl Costs {
    /// Whether that is right, where nothing else runs.
    ///
    /// # Errors
    /// [`Error::Breach`] if something costs more.
    pub fn judge(&self) -> Result<(), Error> {
        let is_slow = self.openings.iter().zip(LIMITS.openings).any(|(took, limit)| *took > limit);
        if is_slow || self.memory > LIMITS.memory || self.processor > LIMITS.processor {
            return Err(Error::Breach(format!("{self:?} where at most {LIMITS:?} is right")));
        }
        Ok(())
    }
}

/// Starts three servers of `program`, with their files in a directory, and measures.
///
/// # Errors
/// What SQLite answers, and what keeps the servers from starting.
pub fn run(program: &Path, directory: &Path) -> Result<Costs, Error> {
    let embedded = |name: &str| format!("fulmar:{}", directory.join(name).display());
    let small = opening(&embedded("small"), 1)?;
    let large = opening(&embedded("large"), LARGE)?;
    let servers = Servers::start(program, directory)?;
    let remote = opening(&servers.name("small"), 1)?;
    for number in 1..DATABASES {
        fill(&servers.name(&format!("small{number}")), 1)?;
    }
    thread::sleep(IDLE / 2);
    let before = servers.times()?;
    thread::sleep(IDLE);
    let taken =
        before.iter().zip(servers.times()?).map(|(before, after)| after.saturating_sub(*before)).max();
    let processor = taken.unwrap_or_default().as_secs_f64() / IDLE.as_secs_f64();
    let memory = servers.most(|server| server.memory("VmRSS"))?;
    Ok(Costs { openings: [small, large, remote], memory, processor })
}

/// A table with rows of so many bytes.
fn fill(name: &str, bytes: usize) -> Result<(), Error> {
    let connection = database::open(name)?;
    connection.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")?;
    let rows = bytes.div_ceil(1_000);
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
         INSERT INTO t SELECT i, randomblob(1000) FROM n",
        [rows],
    )?;
    Ok(())
}

/// How long it takes to open a database of so many bytes, to read a row, and to close it.
fn opening(name: &str, bytes: usize) -> Result<Duration, Error> {
    fill(name, bytes)?;
    let mut took = Vec::new();
    for _ in 0..OPENINGS {
        let begun = Instant::now();
        let connection = database::open(name)?;
        connection.query_row("SELECT b FROM t WHERE a = 1", [], |_| Ok(()))?;
        drop(connection);
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took[OPENINGS / 2])
}
