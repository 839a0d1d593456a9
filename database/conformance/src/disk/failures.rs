//! Calls of the operating system that fail under a process that commits.
//!
//! Each round a process makes or opens a database and commits, until a call fails under it. The statement that needed
//! the call must say so; the database must stay readable, as it was before that statement; and once calls succeed again,
//! the database must open again and go on with all that was acknowledged.

use super::states::{self, Replay};
use super::trace;
use crate::database;
use crate::workload::{self, Acknowledged, Error};
use fulmar_locks::Mutex;
use fulmar_node::Random;
use rusqlite::{Connection, ErrorCode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which calls fail, and how. Only calls that change files count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happens to them.
    pub nature: Nature,
    /// How many calls succeed before.
    pub first: u64,
    /// How many of the next calls this happens to.
    pub calls: u64,
}

/// What may happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It answers EIO.
    Error,
    /// It answers ENOSPC if it takes space; the first write, if it is one, takes what is left.
    Full,
    /// It writes only half of what it should, as the system may do at any time.
    Short,
}

impl Nature {
    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Full => "full",
            Self::Short => "short",
        }
    }

    /// What [`Self::name`] calls so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Error, Self::Full, Self::Short].into_iter().find(|nature| nature.name() == name)
    }
}

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many processes meet a fault.
    pub rounds: usize,
    /// Decides everything that threads do not.
    pub seed: u64,
}

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Processes that were to meet a fault, each with a sound outcome.
    pub rounds: usize,
    /// How many of them did meet it.
    pub struck: usize,
    /// How many statements failed for it.
    pub refused: usize,
}

/// Checks as much as `plan` says. `worker` is a program that is told a directory to watch, a trace to append to, a
/// number of transactions and a fault, as nature, first and calls, and does [`endure`] there.
///
/// # Errors
/// The first breach, with how to see something like it again.
pub fn run(worker: &mut dyn FnMut() -> Command, plan: Plan) -> Result<Seen, Error> {
    let scratch = tempfile::tempdir()?;
    let root = scratch.path().join("root");
    let trace = scratch.path().join("trace");
    let mut chance = Random::new(plan.seed);
    let mut seen = Seen::default();
    let mut acknowledged = Vec::new();
    for round in 0..plan.rounds {
        let seed = chance.next();
        if round == 0 || chance.one_in(4) {
            states::empty(root.clone())?;
            acknowledged.clear();
        }
        let (fault, transactions) = draw(&mut Random::new(seed));
        let outcome = meet(worker, &root, &trace, fault, transactions, &mut acknowledged)
            .and_then(|report| cut_power(&trace, scratch.path().join("state"), seed).map(|()| report));
        let report = outcome.map_err(|error| {
            Error::Breach(format!(
                "round {round}, {transactions} transactions, {fault:?}: {error}\nto try the same again: cargo run \
                 --release -p fulmar-conformance --bin disk -- failures --rounds {} --seed {}",
                round + 1,
                plan.seed
            ))
        })?;
        seen.rounds += 1;
        seen.struck += usize::from(report.struck > 0);
        seen.refused += report.refused;
    }
    Ok(seen)
}

/// A fault and how many transactions of each thread meet it.
fn draw(chance: &mut Random) -> (Fault, i64) {
    // Now and then enough for tables in memory to be flushed.
    let transactions = if chance.one_in(16) { 150 } else { chance.between(2, 20) };
    let nature = match chance.index(5) {
        0 | 1 => Nature::Error,
        2 | 3 => Nature::Full,
        _ => Nature::Short,
    };
    // A new database takes some 180 calls, a commit some three.
    let until = if chance.one_in(3) { 180 } else { 180 + 9 * transactions };
    let calls = match chance.index(4) {
        0 => 1,
        // There is room again when the database is closed.
        1 => 2,
        2 => chance.between(3, 50),
        _ => i64::MAX >> 1,
    };
    let first = chance.between(0, until).unsigned_abs();
    (Fault { nature, first, calls: calls.unsigned_abs() }, transactions)
}

/// Lets a process meet `fault`, and looks at what it leaves.
fn meet(
    worker: &mut dyn FnMut() -> Command,
    root: &Path,
    trace: &Path,
    fault: Fault,
    transactions: i64,
    acknowledged: &mut Vec<i64>,
) -> Result<Report, Error> {
    let mut command = worker();
    command.arg(root).arg(trace).arg(transactions.to_string());
    command.args([fault.nature.name(), &fault.first.to_string(), &fault.calls.to_string()]);
    let (operations, said) = states::record(command, root, trace, acknowledged)?;
    let report = Report::parse(&said);
    let report = report.ok_or_else(|| Error::Breach(format!("the process reported {said:?}")))?;
    if fault.nature == Nature::Short && report.refused > 0 {
        return Err(Error::Breach("a write that was cut short was not continued".into()));
    }
    let mut replay = Replay::new(&operations, false);
    replay.advance(operations.len());
    let connection = database::open(&database::under_test(root))?;
    workload::check(&connection, replay.acknowledged.by_thread())?;
    *acknowledged = workload::progress(&connection)?.unwrap_or_default();
    Ok(report)
}

/// Cuts the power somewhere in what the process did, its failed calls and what it made of them included.
fn cut_power(trace: &Path, state: PathBuf, seed: u64) -> Result<(), Error> {
    let operations = trace::decode(&fs::read(trace)?)?;
    let mut replay = Replay::new(&operations, false);
    replay.advance(states::place(seed, &operations));
    replay.check(seed, &states::empty(state)?)
}

/// What [`endure`] has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many calls something happened to.
    pub struck: u64,
    /// How many statements failed for it.
    pub refused: usize,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.struck, self.refused)
    }
}

impl Report {
    fn parse(said: &str) -> Option<Self> {
        let (struck, refused) = said.trim().split_once(' ')?;
        Some(Self { struck: struck.parse().ok()?, refused: refused.parse().ok()? })
    }
}

/// The process's side: commits to the database `name` in a directory whose calls may fail, until `heal` is called, which
/// answers how many did. Each commit is acknowledged.
///
/// # Errors
/// [`Error::Breach`] if a failing call has another effect than it should.
pub fn endure(
    name: &str,
    transactions: i64,
    acknowledge: &(dyn Fn(i64, i64) + Sync),
    heal: &dyn Fn() -> u64,
) -> Result<Report, Error> {
    let acknowledged = Mutex::new(Acknowledged::default());
    let noting = |thread: i64, n: i64| {
        acknowledged.lock().note(thread, n);
        acknowledge(thread, n);
    };
    let looked_at = |connection: &Connection| {
        let mut acknowledged = acknowledged.lock();
        if acknowledged.by_thread().is_empty() {
            let progress = workload::progress(connection)?.unwrap_or_default();
            (0..).zip(progress).for_each(|(thread, n)| acknowledged.note(thread, n));
        }
        workload::check(connection, acknowledged.by_thread())
    };
    let (mut refused, mut was_full) = (0, false);
    match open(name) {
        Ok(connection) => {
            looked_at(&connection)?;
            if let Err(error) = workload::work(name, Some(transactions), &noting) {
                was_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
                sound(error)?;
                let acknowledged = acknowledged.lock();
                unchanged(&connection, acknowledged.by_thread())?;
                stays_shut(&connection, acknowledged.by_thread())?;
                refused += 2;
            }
        }
        Err(error) => {
            sound(error)?;
            refused += 1;
        }
    }
    // The disk may still be full: opening again fails, or finds everything.
    match open(name) {
        Ok(connection) => looked_at(&connection)?,
        Err(error) => {
            sound(error)?;
            refused += 1;
        }
    }
    let struck = heal();
    let connection = open(name)?;
    looked_at(&connection)?;
    if was_full {
        // Unlike after other errors, who was refused may rely on it.
        unchanged(&connection, acknowledged.lock().by_thread())?;
    }
    workload::work(name, Some(2), &noting)?;
    Ok(Report { struck, refused })
}

/// Opens the database and reads from it.
fn open(name: &str) -> rusqlite::Result<Connection> {
    let connection = database::open(name)?;
    workload::progress(&connection)?;
    Ok(connection)
}

/// A statement may fail for the reason that the operating system gave, and must say where it gave it.
fn sound(error: rusqlite::Error) -> Result<(), Error> {
    if let rusqlite::Error::SqliteFailure(failure, Some(message)) = &error
        && matches!(failure.code, ErrorCode::SystemIoFailure | ErrorCode::DiskFull)
        && message.contains('/')
        && !message.contains("defect")
    {
        return Ok(());
    }
    Err(Error::Breach(format!("a call that failed became {error:?}")))
}

/// What a failed commit would have changed is as it was, and can be read.
fn unchanged(connection: &Connection, acknowledged: &[i64]) -> Result<(), Error> {
    workload::check(connection, acknowledged)?;
    let progress = workload::progress(connection)?.unwrap_or_default();
    if progress == acknowledged {
        return Ok(());
    }
    Err(Error::Breach(format!("after a failed commit one reads {progress:?}, not {acknowledged:?}")))
}

/// Until it is opened again, the database refuses all further commits: nobody knows what of the failed one is on the disk.
fn stays_shut(connection: &Connection, acknowledged: &[i64]) -> Result<(), Error> {
    let attempt = match acknowledged.first() {
        Some(n) => workload::commit(connection, 0, n + 1),
        None => workload::prepare(connection),
    };
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    match attempt {
        Ok(()) => Err(Error::Breach("after a failed commit another one succeeded".into())),
        Err(error) => sound(error),
    }
}
