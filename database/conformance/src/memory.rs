//! A database many times larger than its cache is filled, changed and read, in a process whose memory is measured.

use crate::{database, workload::Error};
use rusqlite::{Connection, Result};
use std::io;
use std::path::Path;
use std::process::Command;

/// What a process may take besides its cache, bytes: the engine's tables in memory above all, four to a keyspace that
/// wait to be flushed and one that is filled, of 16 MiB each; a transaction's changes; SQLite and the program itself.
pub const BESIDES: u64 = 240 << 20;

/// Bytes of a row's value.
const VALUE: i64 = 1_000;
/// Rows of a transaction.
const BATCH: i64 = 5_000;

/// What a process took at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak(pub u64);

/// Fills the database with so many bytes of values, changes some of everything, reads all; then prints the most memory
/// that this process has taken, bytes.
///
/// # Errors
/// What SQLite answers, and what the operating system does not tell.
pub fn work(name: &str, bytes: i64) -> Result<(), Error> {
    let connection = database::open(name)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB);
         CREATE INDEX IF NOT EXISTS tk ON t(k)",
    )?;
    let rows = bytes / VALUE;
    while count(&connection)? < rows {
        connection.execute(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?1)
             INSERT INTO t(k, v) SELECT n * 7919 % 1000003, randomblob(?2) FROM c",
            [BATCH, VALUE],
        )?;
    }
    let parts = (rows / BATCH).max(1);
    for part in (0..parts).step_by(4) {
        connection
            .execute("UPDATE t SET k = k + 1, v = randomblob(?3) WHERE id % ?1 = ?2", [parts, part, VALUE])?;
    }
    for read in ["SELECT count(DISTINCT length(v)) FROM t", "SELECT max(v) FROM t INDEXED BY tk WHERE k > 0"]
    {
        connection.query_row(read, [], |_| Ok(()))?;
    }
    println!("{}", of_process("self", "VmHWM")?);
    Ok(())
}

fn count(connection: &Connection) -> Result<i64> {
    connection.query_row("SELECT coalesce(max(id), 0) FROM t", [], |row| row.get(0))
}

/// What a line of proc_pid_status(5) says of a process, bytes: `VmRSS` is the memory that it takes now, `VmHWM` the most until now.
pub(crate) fn of_process(process: &str, line: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    let kilobytes = found.and_then(|found| found.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.map(|n| n << 10).ok_or_else(|| io::Error::other(format!("no {line} in /proc/{process}/status")))
}

/// Lets `worker`, a program that calls [`work`] with its last two arguments, work on a database in `directory` of ten
/// times the size of `cache`, bytes. Then lets another read it with a cache in which it has room. Returns the peaks of
/// both.
///
/// # Errors
/// [`Error::Breach`] if the first takes more than its cache and [`BESIDES`], or the second does not: then the first
/// proves nothing.
pub fn run(worker: &mut dyn FnMut() -> Command, directory: &Path, cache: u64) -> Result<[Peak; 2], Error> {
    let name = database::under_test(directory);
    let bytes = 10 * cache;
    let mut measure = |cache: u64| -> Result<Peak, Error> {
        let output = worker().arg(format!("{name}?cache={cache}")).arg(bytes.to_string()).output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().parse();
        said.map(Peak).map_err(|_| {
            Error::Breach(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
        })
    };
    let bounded = measure(cache)?;
    let unbounded = measure(2 * bytes)?;
    let limit = cache + BESIDES;
    if bounded.0 > limit {
        return Err(Error::Breach(format!("{} bytes of memory, with a cache of {cache}", bounded.0)));
    }
    if unbounded.0 < limit {
        return Err(Error::Breach(format!("a cache for everything took {} bytes only", unbounded.0)));
    }
    Ok([bounded, unbounded])
}
