//! Transactions whose effects can be told from their numbers, to find out which of them a database holds.
//!
//! Each of a few threads numbers its transactions. Transaction `n` writes entries, moves an amount between accounts,
//! removes what is old and notes `n` as the thread's progress; now and then it stores a large value, or makes and drops
//! tables. So whatever number a database has reached, all that it should hold follows.

use crate::database;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Result, params};
use std::io;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// Threads that commit.
pub const THREADS: i64 = 3;
/// How many transactions back entries, large values and tables are kept.
const KEPT: i64 = 30;
/// The sum of a thread's accounts.
const MONEY: i64 = 1_000;
const ACCOUNTS: i64 = 4;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A statement failed that should not have.
    #[error(transparent)]
    Statement(#[from] rusqlite::Error),
    /// A process could not be run, or a file not be read.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The database is not as it must be.
    #[error("{0}")]
    Breach(String),
}

/// The last transaction that each thread was told is committed.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged(Vec<i64>);

impl Acknowledged {
    /// Transaction `n` of `thread` is committed.
    pub fn note(&mut self, thread: i64, n: i64) {
        if let Ok(thread) = usize::try_from(thread) {
            let threads = self.0.len().max(thread + 1);
            self.0.resize(threads, 0);
            self.0[thread] = self.0[thread].max(n);
        }
    }

    /// What [`check`] asks for; nothing if there was no thread yet.
    #[must_use]
    pub fn by_thread(&self) -> &[i64] {
        &self.0
    }
}

/// How many entries transaction `n` has: some fill a leaf.
fn entries(n: i64) -> i64 {
    n % 7 + 1 + if n % 40 == 0 { 200 } else { 0 }
}

fn has_large_value(n: i64) -> bool {
    n % 10 == 4
}

/// Bytes of the large value of transaction `n`: up to 2 MB.
fn large_value(thread: i64, n: i64) -> Vec<u8> {
    let mut random = fulmar_node::Random::new((thread * 1_000_003 + n).cast_unsigned());
    let length = 50_000 << random.index(6);
    let mut value = Vec::with_capacity(length);
    while value.len() < length {
        value.extend(random.next().to_le_bytes());
    }
    value
}

fn makes_table(n: i64) -> bool {
    n % 13 == 7
}

/// Makes the tables in an empty database, in one transaction.
///
/// # Errors
/// What SQLite answers.
pub fn prepare(connection: &Connection) -> Result<()> {
    connection.execute_batch(
        "BEGIN;
         CREATE TABLE progress(thread INTEGER PRIMARY KEY, n INTEGER NOT NULL);
         CREATE TABLE entry(thread, n, part, filler TEXT, PRIMARY KEY(thread, n, part)) WITHOUT ROWID;
         CREATE INDEX entry_filler ON entry(filler, n);
         CREATE TABLE account(id INTEGER PRIMARY KEY, thread, balance);
         CREATE INDEX account_balance ON account(balance, thread);
         CREATE TABLE large(thread, n, value BLOB, PRIMARY KEY(thread, n));",
    )?;
    for thread in 0..THREADS {
        connection.execute("INSERT INTO progress VALUES (?1, 0)", [thread])?;
        for account in 0..ACCOUNTS {
            let balance = if account == 0 { MONEY } else { 0 };
            let id = thread * ACCOUNTS + account;
            connection.execute("INSERT INTO account VALUES (?1, ?2, ?3)", [id, thread, balance])?;
        }
    }
    connection.execute_batch("COMMIT")
}

/// How far each thread has come; `None` before [`prepare`].
///
/// # Errors
/// What SQLite answers.
pub fn progress(connection: &Connection) -> Result<Option<Vec<i64>>> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'progress'";
    if connection.query_row(sql, [], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let mut statement = connection.prepare("SELECT n FROM progress ORDER BY thread")?;
    statement.query_map([], |row| row.get(0))?.collect::<Result<_>>().map(Some)
}

/// Goes on from where the database `name` is, with so many transactions of each thread, after preparing an empty one.
/// Each is acknowledged, the first time with what is there already.
///
/// # Errors
/// What SQLite answers first. All threads have ended then.
pub fn work(name: &str, transactions: Option<i64>, acknowledge: &(dyn Fn(i64, i64) + Sync)) -> Result<()> {
    let connection = database::open(name)?;
    if progress(&connection)?.is_none() {
        prepare(&connection)?;
    }
    let reached = progress(&connection)?.unwrap_or_default();
    for (thread, n) in (0..).zip(&reached) {
        acknowledge(thread, *n);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..)
            .zip(reached)
            .map(|(thread, reached)| {
                scope.spawn(move || -> Result<()> {
                    let connection = database::open(name)?;
                    let last = transactions.map_or(i64::MAX, |more| reached + more);
                    (reached + 1..=last).try_for_each(|n| {
                        commit(&connection, thread, n)?;
                        acknowledge(thread, n);
                        Ok(())
                    })
                })
            })
            .collect();
        // All are waited for, then the first failure counts.
        let results: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        results.into_iter().try_for_each(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Carries out transaction `n` of `thread`, again if it conflicts with another thread's.
///
/// # Errors
/// What SQLite answers.
pub fn commit(connection: &Connection, thread: i64, n: i64) -> Result<()> {
    loop {
        match attempt(connection, thread, n) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                if !connection.is_autocommit() {
                    connection.execute_batch("ROLLBACK")?;
                }
            }
            result => return result,
        }
    }
}

fn attempt(connection: &Connection, thread: i64, n: i64) -> Result<()> {
    connection.execute_batch("BEGIN")?;
    let mut insert = connection.prepare("INSERT INTO entry VALUES (?1, ?2, ?3, ?4)")?;
    for part in 0..entries(n) {
        insert.execute(params![thread, n, part, format!("{:040}", n * 31 % 97)])?;
    }
    let old = n - KEPT;
    connection.execute("DELETE FROM entry WHERE thread = ?1 AND n <= ?2", [thread, old])?;
    let mut pay = connection.prepare("UPDATE account SET balance = balance + ?2 WHERE id = ?1")?;
    for (account, amount) in [(n % ACCOUNTS, -n), ((n + 1) % ACCOUNTS, n)] {
        pay.execute([thread * ACCOUNTS + account, amount])?;
    }
    if has_large_value(n) {
        let value = large_value(thread, n);
        connection.execute("INSERT INTO large VALUES (?1, ?2, ?3)", params![thread, n, value])?;
    }
    connection.execute("DELETE FROM large WHERE thread = ?1 AND n <= ?2", [thread, old])?;
    if makes_table(n) {
        connection.execute_batch(&format!(
            "CREATE TABLE made_{thread}_{n}(a, b UNIQUE); INSERT INTO made_{thread}_{n} VALUES ({n}, {n});"
        ))?;
    }
    if old > 0 && makes_table(old) {
        connection.execute_batch(&format!("DROP TABLE made_{thread}_{old}"))?;
    }
    connection.execute("UPDATE progress SET n = ?2 WHERE thread = ?1", [thread, n])?;
    connection.execute_batch("COMMIT")
}

/// Checks a database that may have been interrupted at any moment, given the last transaction that each thread
/// acknowledged: it and what comes before must be there, the next may, and all must be whole.
///
/// # Errors
/// [`Error::Breach`] if something acknowledged is lost, or something is there in half or too early.
pub fn check(connection: &Connection, acknowledged: &[i64]) -> Result<(), Error> {
    let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if integrity != "ok" {
        return Err(Error::Breach(format!("integrity_check: {integrity}")));
    }
    let Some(progress) = progress(connection)? else {
        return require(acknowledged.is_empty(), || {
            format!("all is lost that was acknowledged: {acknowledged:?}")
        });
    };
    for (thread, n) in (0..).zip(progress) {
        let acknowledged = usize::try_from(thread).ok().and_then(|thread| acknowledged.get(thread));
        let acknowledged = *acknowledged.unwrap_or(&0);
        require(n >= acknowledged && n <= acknowledged + 1, || {
            format!("thread {thread} acknowledged {acknowledged}, but the database has {n}")
        })?;
        whole(connection, thread, n)?;
    }
    Ok(())
}

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Breach(what())) }
}

/// All that `thread` left must be what it leaves after its transaction `n`.
fn whole(connection: &Connection, thread: i64, n: i64) -> Result<(), Error> {
    let kept = || (n - KEPT + 1).max(1)..=n;
    for source in ["NOT INDEXED", "INDEXED BY entry_filler"] {
        let sql = format!(
            "SELECT n, count(*) FROM entry {source} WHERE thread = {thread} AND filler >= '' GROUP BY n ORDER BY n"
        );
        let mut statement = connection.prepare(&sql)?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found = found.collect::<Result<Vec<(i64, i64)>>>()?;
        let expected: Vec<_> = kept().map(|n| (n, entries(n))).collect();
        require(found == expected, || {
            format!("thread {thread} at {n}: entries {found:?}, not {expected:?} ({source})")
        })?;
    }
    for source in ["NOT INDEXED", "INDEXED BY account_balance"] {
        let sql =
            format!("SELECT sum(balance) FROM account {source} WHERE thread = {thread} AND balance < 1e9");
        let money: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        require(money == MONEY, || format!("thread {thread} at {n}: its accounts hold {money} ({source})"))?;
    }
    let mut statement = connection.prepare("SELECT n, value FROM large WHERE thread = ?1 ORDER BY n")?;
    let found = statement.query_map([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found = found.collect::<Result<Vec<(i64, Vec<u8>)>>>()?;
    let expected = kept().filter(|n| has_large_value(*n)).map(|n| (n, large_value(thread, n)));
    require(found.into_iter().eq(expected), || format!("thread {thread} at {n}: wrong large values"))?;
    let sql = format!("SELECT name FROM sqlite_schema WHERE name GLOB 'made_{thread}_*' AND type = 'table'");
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>>>()?;
    let expected = kept().filter(|n| makes_table(*n)).map(|n| format!("made_{thread}_{n}"));
    let mut expected: Vec<String> = expected.collect();
    found.sort();
    expected.sort();
    require(found == expected, || format!("thread {thread} at {n}: tables {found:?}, not {expected:?}"))?;
    for table in found {
        let sql = format!("SELECT count(*) FROM {table} WHERE b > 0");
        let rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        require(rows == 1, || format!("thread {thread} at {n}: {rows} rows in {table}"))?;
    }
    Ok(())
}
