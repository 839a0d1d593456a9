//! A client process: it writes and reads, tells what it was answered, forks and reconnects.
//!
//! It has two slots. In one the process that was started works; in the other a child, which after some operations forks
//! its successor and ends. So the successor inherits what a process has of Fulmar in use, and uses none of it.

use super::check::{ACCOUNTS, BALANCE, NEWEST};
use super::history::{Event, Outcome, Read, Slot, Time, Write};
use super::{Failure, now};
use crate::database;
use fulmar_node::Random;
use rusqlite::{Connection, ErrorCode, params};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Client processes that are started.
pub const CLIENTS: u32 = 3;
/// Where they write.
pub const SLOTS: u32 = 2 * CLIENTS;
/// After so many operations a child forks its successor.
const LIFE: u32 = 60;
/// How long a commit waits: for nothing, for nothing, for the disk.
const SYNCHRONOUS: [&str; 3] = ["OFF", "NORMAL", "FULL"];
/// Claims of all slots within so many microseconds are of the same key.
const CLAIM: Time = 40_000;

/// What the runner and the clients have in common: files in one directory.
#[derive(Clone, Debug)]
pub struct Meeting(PathBuf);

impl Meeting {
    /// In this directory.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Self(directory.into())
    }

    /// Tells the name of the database.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn name_is(&self, name: &str) -> std::io::Result<()> {
        let new = self.0.join("name.new");
        std::fs::write(&new, name)?;
        std::fs::rename(new, self.0.join("name"))
    }

    /// Has the clients end.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn is_over(&self) -> std::io::Result<()> {
        std::fs::write(self.0.join("over"), "")
    }

    fn name(&self) -> std::io::Result<String> {
        std::fs::read_to_string(self.0.join("name"))
    }

    fn goes_on(&self) -> bool {
        !self.0.join("over").exists()
    }
}

/// Makes the tables of a new database.
///
/// # Errors
/// What SQLite answers.
pub fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "BEGIN;
         CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         CREATE INDEX account_balance ON account(balance);
         CREATE TABLE entry(slot, n, source, target, amount, UNIQUE(slot, n));
         CREATE TABLE claim(key UNIQUE, slot, n);",
    )?;
    for id in 0..ACCOUNTS {
        connection.execute("INSERT INTO account VALUES (?1, ?2)", [id, BALANCE])?;
    }
    connection.execute_batch("COMMIT")
}

/// Works until the runner says that it is over.
///
/// # Errors
/// If it cannot fork, or nobody listens to it.
pub fn work(directory: &str, client: u32, seed: u64) -> Result<(), Failure> {
    let meeting = Meeting::at(Path::new(directory));
    if client == 0 && fork()? {
        let (slot, random) = (SLOTS, Random::new(seed));
        return Worker { meeting, slot, random, forks: false, done: 0 }.count_on();
    }
    let is_child = fork()?;
    let slot = client * 2 + u32::from(is_child);
    let random = Random::new(seed.wrapping_mul(1_000).wrapping_add(slot.into()));
    Worker { meeting, slot, random, forks: is_child, done: 0 }.work()
}

struct Worker {
    meeting: Meeting,
    slot: Slot,
    random: Random,
    forks: bool,
    done: u32,
}

/// What follows an operation.
enum Next {
    /// The session can be used on.
    GoOn,
    /// It is to be closed, and another opened.
    Reconnect,
}

impl Worker {
    fn work(mut self) -> Result<(), Failure> {
        while self.meeting.goes_on() {
            let Ok(mut session) = database::open(&self.meeting.name()?) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            while self.meeting.goes_on() {
                if self.forks && self.done >= LIFE {
                    if !fork()? {
                        return Ok(());
                    }
                    // It is the parent's, and must not be used here, nor closed.
                    std::mem::forget(session);
                    self.done = 0;
                    session = match database::open(&self.meeting.name()?) {
                        Ok(session) => session,
                        Err(_) => break,
                    };
                }
                self.done += 1;
                if let Next::Reconnect = self.operation(&session)? {
                    break;
                }
                std::thread::sleep(Duration::from_micros(self.random.next() % 20_000));
            }
        }
        Ok(())
    }

    /// Counts all rows again and again. In a long run each time takes more than a second: no writer can do so whose pauses are measured.
    fn count_on(mut self) -> Result<(), Failure> {
        while self.meeting.goes_on() {
            std::thread::sleep(Duration::from_micros(self.random.next() % 8_000_000));
            if let Ok(session) = database::open(&self.meeting.name()?) {
                self.count(&session)?;
            }
        }
        Ok(())
    }

    fn operation(&mut self, session: &Connection) -> Result<Next, Failure> {
        let next = match self.random.weighted(&[3, 3, 1, 2]) {
            0 => self.write(session, transfer)?,
            1 => self.write(session, insert)?,
            2 => self.write(session, claim)?,
            _ => self.read(session)?,
        };
        Ok(if self.random.one_in(40) { Next::Reconnect } else { next })
    }

    /// Tries a transaction, and, if it was acknowledged, whether this session sees it.
    fn write(&mut self, session: &Connection, transaction: Transaction) -> Result<Next, Failure> {
        let n = now();
        let (source, target) = (self.account(), self.account());
        let transfer = Write::Transfer { source, target, amount: self.random.between(1, 9) };
        let (write, attempt) = transaction(transfer, n);
        let synchronous = SYNCHRONOUS[self.random.weighted(&[1, 1, 2])];
        tell(&Event::Try(self.slot, n, write), "")?;
        let set = session.pragma_update(None, "synchronous", synchronous);
        let result =
            set.map_err(|error| (Stage::Before, error)).and_then(|()| attempt(session, self.slot, n, write));
        let (outcome, why) = match &result {
            Ok(()) => (Outcome::Committed, String::new()),
            Err((stage, error)) => (outcome(*stage, error), error.to_string()),
        };
        tell(&Event::Done(self.slot, n, now(), outcome), &why)?;
        if let Err((_, error)) = result {
            self.look_at(&error)?;
            let is_ready = session.is_autocommit() || session.execute_batch("ROLLBACK").is_ok();
            return Ok(if is_ready && is_refused(&error) { Next::GoOn } else { Next::Reconnect });
        }
        if let (Write::Transfer { .. }, Outcome::Committed) = (write, outcome) {
            let sql = "SELECT count(*) FROM entry WHERE slot = ?1 AND n = ?2";
            match session.query_row(sql, params![self.slot, n], |row| row.get::<_, i64>(0)) {
                Ok(rows) => tell(&Event::Own(self.slot, n, rows == 1), "")?,
                Err(error) => return self.give_up(&error),
            }
        }
        Ok(Next::GoOn)
    }

    /// Nothing that was to be read can be.
    fn give_up(&self, error: &rusqlite::Error) -> Result<Next, Failure> {
        self.look_at(error)?;
        Ok(Next::Reconnect)
    }

    /// Tells of an error that no fault may lead to.
    fn look_at(&self, error: &rusqlite::Error) -> Result<(), Failure> {
        if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) {
            tell(&Event::Damaged(self.slot, now()), &error.to_string())?;
        }
        Ok(())
    }

    fn count(&self, session: &Connection) -> Result<(), Failure> {
        let begin = now();
        match whole(session) {
            Ok((counts, odd)) => tell(&Event::Count(self.slot, begin, counts), &odd)?,
            Err(error) => self.look_at(&error)?,
        }
        Ok(())
    }

    fn account(&mut self) -> i64 {
        self.random.between(0, ACCOUNTS - 1)
    }

    fn read(&self, session: &Connection) -> Result<Next, Failure> {
        let begin = now();
        match snapshot(session) {
            Ok((sums, rows)) => {
                tell(&Event::Read(Read { slot: self.slot, begin, end: now(), sums, rows }), "")?
            }
            Err(error) => return self.give_up(&error),
        }
        Ok(Next::GoOn)
    }
}

type Attempt = fn(&Connection, Slot, Time, Write) -> Result<(), (Stage, rusqlite::Error)>;
type Transaction = fn(Write, Time) -> (Write, Attempt);

/// When a transaction failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before anything of it was sent.
    Before,
    /// While it was committed, or maybe.
    Commit,
}

fn transfer(write: Write, _: Time) -> (Write, Attempt) {
    (write, |session, slot, n, write| {
        let before = |error| (Stage::Before, error);
        session.execute_batch("BEGIN").map_err(before)?;
        if let Write::Transfer { source, target, amount } = write {
            let half = |account, amount| crate::transfers::half(session, account, amount);
            half(source, -amount).and_then(|()| half(target, amount)).map_err(before)?;
        }
        insert_entry(session, slot, n, write).map_err(before)?;
        session.execute_batch("COMMIT").map_err(|error| (Stage::Commit, error))
    })
}

fn insert(_: Write, _: Time) -> (Write, Attempt) {
    let write = Write::Transfer { source: 0, target: 0, amount: 0 };
    (write, |session, slot, n, write| {
        insert_entry(session, slot, n, write).map_err(|error| (Stage::Commit, error))
    })
}

fn insert_entry(session: &Connection, slot: Slot, n: Time, write: Write) -> rusqlite::Result<()> {
    if let Write::Transfer { source, target, amount } = write {
        let row = params![slot, n, source, target, amount];
        session.execute("INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5)", row)?;
    }
    Ok(())
}

fn claim(_: Write, n: Time) -> (Write, Attempt) {
    (Write::Claim((n / CLAIM).cast_signed()), |session, slot, n, write| {
        let Write::Claim(key) = write else { return Ok(()) };
        let claimed = session.execute("INSERT INTO claim VALUES (?1, ?2, ?3)", params![key, slot, n]);
        claimed.map(drop).map_err(|error| (Stage::Commit, error))
    })
}

/// What docs/server.md says of errors: who was refused may rely on it; of other errors of a commit nobody can tell.
fn outcome(stage: Stage, error: &rusqlite::Error) -> Outcome {
    if stage == Stage::Before || is_refused(error) { Outcome::Failed } else { Outcome::Unknown }
}

pub(super) fn is_refused(error: &rusqlite::Error) -> bool {
    let refusals = [ErrorCode::DatabaseBusy, ErrorCode::ConstraintViolation, ErrorCode::DiskFull];
    error.sqlite_error_code().is_some_and(|code| refusals.contains(&code))
}

type Newest = Vec<(Slot, Vec<Time>)>;

fn snapshot(session: &Connection) -> rusqlite::Result<([i64; 2], Newest)> {
    session.execute_batch("BEGIN")?;
    let sum = |by| session.query_row(&format!("SELECT sum(balance) FROM account {by}"), [], |row| row.get(0));
    let sums = [sum("NOT INDEXED")?, sum("INDEXED BY account_balance WHERE balance > -1000000000")?];
    // `amount` is not in the index: so the rows are read, too.
    let sql = "SELECT n, amount FROM entry WHERE slot = ?1 ORDER BY n DESC LIMIT ?2";
    let mut newest = session.prepare(sql)?;
    let mut of = |slot: Slot| {
        let rows =
            newest.query_map(params![slot, NEWEST], |row| row.get::<_, i64>(1).and_then(|_| row.get(0)))?;
        Ok((slot, rows.collect::<rusqlite::Result<Vec<Time>>>()?))
    };
    let rows = (0..SLOTS).map(&mut of).collect::<rusqlite::Result<Newest>>()?;
    session.execute_batch("COMMIT")?;
    Ok((sums, rows))
}

/// How many rows a snapshot has, by table and by index; and if these differ, some that are in one of them only.
fn whole(session: &Connection) -> rusqlite::Result<([i64; 2], String)> {
    session.execute_batch("BEGIN")?;
    let counted = counts(session)?;
    let odd = if counted[0] == counted[1] { String::new() } else { odd(session)? };
    session.execute_batch("COMMIT")?;
    Ok((counted, odd))
}

const BY_TABLE: &str = "FROM entry NOT INDEXED";
const BY_INDEX: &str = "FROM entry INDEXED BY sqlite_autoindex_entry_1 WHERE slot >= 0";

fn counts(session: &Connection) -> rusqlite::Result<[i64; 2]> {
    let count = |by| session.query_row(&format!("SELECT count(*) {by}"), [], |row| row.get(0));
    Ok([count(BY_TABLE)?, count(BY_INDEX)?])
}

/// Some rows that are in the table and not in its index, or in the index only.
///
/// # Errors
/// What SQLite answers.
pub fn odd(session: &Connection) -> rusqlite::Result<String> {
    let but = |one, other| {
        let sql = format!(
            "SELECT group_concat(format('%d|%d|%d', rowid, slot, n), ' ') FROM (SELECT rowid, slot, n {one} \
             EXCEPT SELECT rowid, slot, n {other} LIMIT 9)"
        );
        session.query_row(&sql, [], |row| row.get::<_, Option<String>>(0)).map(Option::unwrap_or_default)
    };
    Ok(format!(
        "only in the table: {}; only in the index: {}",
        but(BY_TABLE, BY_INDEX)?,
        but(BY_INDEX, BY_TABLE)?
    ))
}

/// One write: lines of processes that share a pipe do not mix if they are shorter than its buffer.
fn tell(event: &Event, why: &str) -> std::io::Result<()> {
    let line = format!("{event} {}", why.replace('\n', " "));
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{}\n", line.trim_end()).as_bytes())?;
    output.flush()
}

/// Whether this is the child.
#[expect(unsafe_code, reason = "there is no other way to fork")]
fn fork() -> std::io::Result<bool> {
    // SAFETY: the child goes on as a program does that was forked by any of SQLite's users: it may be one of several threads,
    // whose locks of the C library the C library cares for.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        id => Ok(id == 0),
    }
}
