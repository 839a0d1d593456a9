//! A process that commits is killed, again and again.
//!
//! Each of its threads numbers its transactions. Transaction `n` writes `n`'s entries, removes old ones, and notes `n` as
//! the thread's progress; once committed it is acknowledged on a pipe. After the kill, progress must have reached what
//! was acknowledged and be at most one further, and the entries must be exactly those of the numbers up to it.

use crate::database;
use rusqlite::{Connection, Result, params};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Threads of the process that is killed.
pub const THREADS: i64 = 3;
/// How many transactions back entries are kept.
const KEPT: i64 = 30;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A statement failed that should not have.
    #[error(transparent)]
    Statement(#[from] rusqlite::Error),
    /// The process could not be run.
    #[error("the process to be killed: {0}")]
    Process(#[from] io::Error),
    /// The database is not as it must be.
    #[error("{0}")]
    Breach(String),
}

/// How many entries transaction `n` has: some fill a leaf.
fn entries(n: i64) -> i64 {
    n % 7 + 1 + if n % 40 == 0 { 200 } else { 0 }
}

/// Makes the tables in an empty database.
///
/// # Errors
/// What SQLite answers.
pub fn prepare(connection: &Connection) -> Result<()> {
    connection.execute_batch(
        "CREATE TABLE progress(thread INTEGER PRIMARY KEY, n INTEGER NOT NULL);
         CREATE TABLE entry(thread, n, part, filler TEXT, PRIMARY KEY(thread, n, part)) WITHOUT ROWID;
         CREATE INDEX entry_filler ON entry(filler, n);",
    )?;
    for thread in 0..THREADS {
        connection.execute("INSERT INTO progress VALUES (?1, 0)", [thread])?;
    }
    Ok(())
}

/// Commits on and on, and acknowledges each transaction on standard output as `THREAD N`. Ends when that is closed.
///
/// # Errors
/// What SQLite answers.
pub fn work(name: &str) -> Result<()> {
    let output = Mutex::new(io::stdout());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let output = &output;
                scope.spawn(move || -> Result<()> {
                    let connection = database::open(name)?;
                    let progress = "SELECT n FROM progress WHERE thread = ?1";
                    let mut n: i64 = connection.query_row(progress, [thread], |row| row.get(0))?;
                    loop {
                        n += 1;
                        commit(&connection, thread, n)?;
                        let Ok(mut output) = output.lock() else { return Ok(()) };
                        if writeln!(output, "{thread} {n}").and_then(|()| output.flush()).is_err() {
                            return Ok(());
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap_or(Ok(())))
    })
}

fn commit(connection: &Connection, thread: i64, n: i64) -> Result<()> {
    connection.execute_batch("BEGIN")?;
    let mut insert = connection.prepare("INSERT INTO entry VALUES (?1, ?2, ?3, ?4)")?;
    for part in 0..entries(n) {
        insert.execute(params![thread, n, part, format!("{:040}", n * 31 % 97)])?;
    }
    connection.execute("DELETE FROM entry WHERE thread = ?1 AND n <= ?2", [thread, n - KEPT])?;
    connection.execute("UPDATE progress SET n = ?2 WHERE thread = ?1", [thread, n])?;
    connection.execute_batch("COMMIT")
}

/// Checks the database after a kill, given the last transaction that each thread acknowledged.
///
/// # Errors
/// [`Error::Breach`] if something acknowledged is lost, or something is there in half.
pub fn check(connection: &Connection, acknowledged: &[i64]) -> Result<(), Error> {
    let breach = |what: String| Err(Error::Breach(what));
    let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if integrity != "ok" {
        return breach(format!("integrity_check: {integrity}"));
    }
    for (thread, acknowledged) in (0..).zip(acknowledged) {
        let sql = "SELECT n FROM progress WHERE thread = ?1";
        let n: i64 = connection.query_row(sql, [thread], |row| row.get(0))?;
        if n < *acknowledged || n > acknowledged + 1 {
            return breach(format!("thread {thread} acknowledged {acknowledged}, but the database has {n}"));
        }
        for source in ["NOT INDEXED", "INDEXED BY entry_filler"] {
            let sql = format!(
                "SELECT n, count(*) FROM entry {source} WHERE thread = {thread} AND filler >= '' GROUP BY n ORDER BY n"
            );
            let mut statement = connection.prepare(&sql)?;
            let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let found = found.collect::<Result<Vec<(i64, i64)>>>()?;
            let expected: Vec<_> = ((n - KEPT + 1).max(1)..=n).map(|n| (n, entries(n))).collect();
            if found != expected {
                return breach(format!(
                    "thread {thread} at {n}: entries {found:?}, not {expected:?} ({source})"
                ));
            }
        }
    }
    Ok(())
}

/// Lets `worker`, a program that calls [`work`] with its last argument, commit in a new database in `directory`, and
/// kills it after a different number of commits in each of `rounds` rounds. Returns how many commits there were.
///
/// # Errors
/// The first breach.
pub fn run(worker: &mut dyn FnMut() -> Command, directory: &Path, rounds: u32) -> Result<i64, Error> {
    let name = database::under_test(directory);
    prepare(&database::open(&name)?)?;
    let mut acknowledged = vec![0; usize::try_from(THREADS).unwrap_or(0)];
    for round in 0..rounds {
        let mut child = worker().arg(&name).stdout(Stdio::piped()).spawn()?;
        let mut lines = child.stdout.take().map(|out| BufReader::new(out).lines());
        let patience = round.wrapping_mul(2_654_435_761) % 97;
        for _ in 0..patience {
            match lines.as_mut().and_then(Iterator::next) {
                Some(line) => note(&line?, &mut acknowledged),
                None => return Err(Error::Breach(format!("round {round}: the process ended by itself"))),
            }
        }
        child.kill()?;
        child.wait()?;
        // What it said before it died counts; a line cut short does not.
        for line in lines.into_iter().flatten() {
            note(&line?, &mut acknowledged);
        }
        let connection = database::open(&name)?;
        check(&connection, &acknowledged).map_err(|error| match error {
            Error::Breach(what) => Error::Breach(format!("round {round}: {what}")),
            other => other,
        })?;
        // The next process goes on from what is there, acknowledged or not.
        let mut progress = connection.prepare("SELECT n FROM progress ORDER BY thread")?;
        acknowledged = progress.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    }
    Ok(acknowledged.iter().sum())
}

fn note(line: &str, acknowledged: &mut [i64]) {
    let mut words = line.split(' ');
    let thread = words.next().and_then(|w| w.parse::<usize>().ok());
    let n = words.next().and_then(|w| w.parse::<i64>().ok());
    if let (Some(entry), Some(n)) = (thread.and_then(|t| acknowledged.get_mut(t)), n)
        && n > *entry
    {
        *entry = n;
    }
}
