//! Concurrent transfers between accounts. Each moves an amount in a transaction of two updates; a reader sums all
//! accounts in one snapshot. Money neither appears nor vanishes unless an update is lost or half a transfer is seen.

use crate::database;
use rusqlite::{Connection, ErrorCode, Result, params};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const ACCOUNTS: i64 = 40;
const BALANCE: i64 = 1_000;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A statement failed that should not have.
    #[error(transparent)]
    Statement(#[from] rusqlite::Error),
    /// A snapshot held another sum than was put in.
    #[error("a snapshot sums up to {found}, not {expected}")]
    Sum {
        /// What it held.
        found: i64,
        /// What was put in.
        expected: i64,
    },
    /// The balances are not what the transfers that were acknowledged make of them.
    #[error("account {account} holds {found}, but its acknowledged transfers come to {expected}")]
    Lost {
        /// The account.
        account: i64,
        /// Its balance.
        found: i64,
        /// What it should be.
        expected: i64,
    },
}

/// Makes the accounts in an empty database.
///
/// # Errors
/// What SQLite answers.
pub fn prepare(connection: &Connection) -> Result<()> {
    connection.execute_batch(
        "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         CREATE INDEX account_balance ON account(balance);",
    )?;
    for id in 0..ACCOUNTS {
        connection.execute("INSERT INTO account VALUES (?1, ?2)", [id, BALANCE])?;
    }
    Ok(())
}

/// `threads` threads make `rounds` transfers each in the database `name`, which is empty, while another reads. Returns
/// how many transfers were made.
///
/// # Errors
/// The first breach, or the first failed statement.
pub fn run(name: &str, threads: u32, rounds: u32) -> Result<u64, Error> {
    let connection = database::open(name)?;
    prepare(&connection)?;
    let over = AtomicBool::new(false);
    let ledgers = std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<(), Error> {
            let connection = database::open(name)?;
            while !over.load(Relaxed) {
                check_sum(&connection)?;
            }
            Ok(())
        });
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || -> Result<Vec<i64>, Error> {
                    let connection = database::open(name)?;
                    let mut ledger = vec![0; usize::try_from(ACCOUNTS).unwrap_or(0)];
                    for round in 0..rounds {
                        let (from, to, amount) = plan(thread, round);
                        transfer(&connection, from, to, amount)?;
                        for (account, sign) in [(from, -1), (to, 1)] {
                            if let Some(entry) = usize::try_from(account).ok().and_then(|a| ledger.get_mut(a))
                            {
                                *entry += sign * amount;
                            }
                        }
                    }
                    Ok(ledger)
                })
            })
            .collect();
        let ledgers: Vec<_> = writers.into_iter().map(join).collect();
        over.store(true, Relaxed);
        join(reader)?;
        ledgers.into_iter().collect::<Result<Vec<_>, Error>>()
    })?;
    check_sum(&connection)?;
    let mut balances = connection.prepare("SELECT id, balance FROM account")?;
    for row in balances.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))? {
        let (account, found) = row?;
        let moved: i64 = ledgers.iter().filter_map(|l| l.get(usize::try_from(account).ok()?)).sum();
        if found != BALANCE + moved {
            return Err(Error::Lost { account, found, expected: BALANCE + moved });
        }
    }
    Ok(u64::from(threads) * u64::from(rounds))
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// From, to, amount: few accounts, so that transfers meet.
fn plan(thread: u32, round: u32) -> (i64, i64, i64) {
    let mixed = (u64::from(thread) << 32 | u64::from(round)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let from = (mixed >> 40).cast_signed() % ACCOUNTS;
    let to = (from + 1 + (mixed >> 20 & 0xff).cast_signed() % (ACCOUNTS - 1)) % ACCOUNTS;
    (from, to, (mixed >> 10 & 0xf).cast_signed() + 1)
}

/// One transfer, tried again for as long as it loses against others.
fn transfer(connection: &Connection, from: i64, to: i64, amount: i64) -> Result<()> {
    loop {
        connection.execute_batch("BEGIN")?;
        let done = half(connection, from, -amount)
            .and_then(|()| half(connection, to, amount))
            .and_then(|()| connection.execute_batch("COMMIT"));
        match done {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                if !connection.is_autocommit() {
                    connection.execute_batch("ROLLBACK")?;
                }
            }
            done => return done,
        }
    }
}

/// Changes one balance, by reading it first, as applications do.
///
/// # Errors
/// What SQLite answers.
pub fn half(connection: &Connection, account: i64, amount: i64) -> Result<()> {
    let mut read = connection.prepare("SELECT balance FROM account WHERE id = ?1")?;
    let balance: i64 = read.query_row([account], |row| row.get(0))?;
    let mut write = connection.prepare("UPDATE account SET balance = ?2 WHERE id = ?1")?;
    write.execute(params![account, balance + amount])?;
    Ok(())
}

/// Sums all accounts, by table and by index, in one snapshot.
///
/// # Errors
/// [`Error::Sum`] if a sum is not what was put in.
pub fn check_sum(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch("BEGIN")?;
    for by in ["NOT INDEXED", "INDEXED BY account_balance WHERE balance > -1000000000"] {
        let sql = format!("SELECT sum(balance) FROM account {by}");
        let found: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        if found != ACCOUNTS * BALANCE {
            return Err(Error::Sum { found, expected: ACCOUNTS * BALANCE });
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}
