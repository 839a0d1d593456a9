//! Single SQL operations on Fulmar's tree and on SQLite's own, in write-ahead-log mode with the same durability.

use crate::Figure;
use crate::figure::{is_wanted, median};
use rusqlite::{Connection, Result, params};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the databases are made, and removed again: on a real disk, if durable commits are to mean anything. The
    /// system's directory for temporary files, if none is given.
    pub directory: Option<PathBuf>,
    /// How often both sides are measured in turn.
    pub runs: usize,
    /// Rows in the table.
    pub rows: i64,
    /// Only figures whose name contains this.
    pub only: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { directory: None, runs: 5, rows: 100_000, only: None }
    }
}

struct Workload {
    figure: &'static str,
    target: f64,
    note: &'static str,
    /// Measures so many operations, which it returns with the time they took.
    measure: fn(&Side, &Options) -> Result<(u32, Duration)>,
}

const WORKLOADS: [Workload; 8] = [
    Workload {
        figure: "sql.point_select_autocommit",
        target: 1.5,
        note: "prepared SELECT by primary key, each a transaction of its own",
        measure: |side, options| point_selects(&side.open()?, options, false),
    },
    Workload {
        figure: "sql.point_select_in_transaction",
        target: 0.8,
        note: "prepared SELECT by primary key, all in one transaction",
        measure: |side, options| point_selects(&side.open()?, options, true),
    },
    Workload {
        figure: "sql.covering_index",
        target: 0.6,
        note: "prepared SELECT answered by an index alone, all in one transaction",
        measure: covering_index,
    },
    Workload {
        figure: "sql.scan_1000",
        target: 0.6,
        note: "ranges of 1,000 rows by primary key, two columns read; time a row",
        measure: scans,
    },
    Workload {
        figure: "sql.bulk_insert",
        target: 0.5,
        note: "rows inserted into a new table in one transaction, commit included; time a row",
        measure: bulk_insert,
    },
    Workload {
        figure: "sql.durable_commit_1_writer",
        target: 0.9,
        note: "single-row UPDATE synced to the disk, one connection",
        measure: |side, options| updates(side, options, 1, 0),
    },
    Workload {
        figure: "sql.durable_commit_16_writers",
        target: 5.0,
        note: "single-row UPDATEs synced to the disk, 16 connections on different rows",
        measure: |side, options| updates(side, options, 16, 0),
    },
    Workload {
        figure: "sql.mixed_16",
        target: 3.0,
        note: "16 connections, each in turn a point SELECT and a single-row UPDATE synced to the disk",
        measure: |side, options| updates(side, options, 16, 1),
    },
];

/// One of the two things compared.
struct Side {
    /// As in a program that uses its database for longer than one statement: nothing is closed and cached anew between
    /// two measurements.
    _open: Connection,
    name: String,
    _directory: TempDir,
}

impl Side {
    fn new(parent: &Path, scheme: &'static str, rows: i64) -> Result<Self> {
        let directory = TempDir::new_in(parent).map_err(|_| rusqlite::Error::InvalidPath(parent.into()))?;
        let name = format!("{scheme}{}/data", directory.path().display());
        let connection = connect(&name)?;
        connection.execute_batch(
            "CREATE TABLE item(id INTEGER PRIMARY KEY, number INTEGER, name TEXT, value TEXT);
             CREATE INDEX item_number ON item(number, name);",
        )?;
        insert(&connection, "item", rows)?;
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(Self { _open: connection, name, _directory: directory })
    }

    /// A connection that has read everything once.
    fn open(&self) -> Result<Connection> {
        open(&self.name)
    }
}

fn open(name: &str) -> Result<Connection> {
    let connection = connect(name)?;
    let read = |sql| connection.query_row(sql, [], |_| Ok(()));
    read("SELECT max(length(value)) FROM item NOT INDEXED")?;
    read("SELECT sum(number) FROM item INDEXED BY item_number")?;
    Ok(connection)
}

fn connect(name: &str) -> Result<Connection> {
    let connection = Connection::open(name)?;
    connection.busy_timeout(Duration::from_secs(600))?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -262144")?;
    Ok(connection)
}

/// Measures the figures in turn; `begin` hears the name of each before.
///
/// # Errors
/// What the databases answer, a directory that is not writable among it.
pub fn run(options: &Options, mut begin: impl FnMut(&str)) -> Result<Vec<Figure>> {
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let is_wanted = |workload: &&Workload| is_wanted(options.only.as_deref(), workload.figure);
    let chosen: Vec<_> = WORKLOADS.iter().filter(is_wanted).collect();
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let fulmar = Side::new(&parent, "fulmar:", options.rows)?;
    let stock = Side::new(&parent, "", options.rows)?;
    chosen
        .into_iter()
        .map(|workload| {
            begin(workload.figure);
            let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for run in 0..options.runs {
                // Whoever is second finds a warmer machine: take turns at that, too.
                let one = |side| -> Result<f64> {
                    let (operations, time) = (workload.measure)(side, options)?;
                    Ok(time.as_secs_f64() * 1e9 / f64::from(operations))
                };
                let (our, their) = if run % 2 == 0 {
                    let our = one(&fulmar)?;
                    (our, one(&stock)?)
                } else {
                    let their = one(&stock)?;
                    (one(&fulmar)?, their)
                };
                ours.push(our);
                theirs.push(their);
                ratios.push(their / our);
            }
            Ok(Figure {
                peer: format!("sqlite {}", fulmar_sql::version()),
                target: Some(workload.target),
                fulmar_nanoseconds: Some(median(&ours)),
                peer_nanoseconds: Some(median(&theirs)),
                note: workload.note.into(),
                ..Figure::of(workload.figure, "ratio", "higher", &ratios)
            })
        })
        .collect()
}

/// Spreads consecutive numbers over the rows: the same rows in the same order on both sides.
fn scatter(n: u32, rows: i64) -> i64 {
    let mixed = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    mixed.cast_signed() % rows + 1
}

fn insert(connection: &Connection, table: &str, rows: i64) -> Result<()> {
    connection.execute_batch("BEGIN")?;
    {
        let sql = format!("INSERT INTO {table}(number, name, value) VALUES (?1, ?2, ?3)");
        let mut insert = connection.prepare(&sql)?;
        let value = "x".repeat(50);
        for n in 0..rows {
            insert.execute(params![n, format!("name {n}"), value])?;
        }
    }
    connection.execute_batch("COMMIT")
}

fn point_selects(
    connection: &Connection,
    options: &Options,
    in_transaction: bool,
) -> Result<(u32, Duration)> {
    const OPERATIONS: u32 = 100_000;
    let mut select = connection.prepare("SELECT value FROM item WHERE id = ?1")?;
    if in_transaction {
        connection.execute_batch("BEGIN")?;
    }
    let start = Instant::now();
    for n in 0..OPERATIONS {
        let length =
            select.query_row([scatter(n, options.rows)], |row| Ok(row.get_ref(0)?.as_str()?.len()))?;
        assert_eq!(length, 50);
    }
    let time = start.elapsed();
    if in_transaction {
        connection.execute_batch("COMMIT")?;
    }
    Ok((OPERATIONS, time))
}

fn covering_index(side: &Side, options: &Options) -> Result<(u32, Duration)> {
    const OPERATIONS: u32 = 100_000;
    let connection = side.open()?;
    let mut select = connection.prepare("SELECT name FROM item WHERE number = ?1")?;
    connection.execute_batch("BEGIN")?;
    let start = Instant::now();
    for n in 0..OPERATIONS {
        let wanted = scatter(n, options.rows) - 1;
        select.query_row([wanted], |row| Ok(row.get_ref(0)?.as_str()?.len()))?;
    }
    let time = start.elapsed();
    connection.execute_batch("COMMIT")?;
    Ok((OPERATIONS, time))
}

fn scans(side: &Side, options: &Options) -> Result<(u32, Duration)> {
    const SCANS: u32 = 300;
    let connection = side.open()?;
    let mut select = connection.prepare("SELECT number, value FROM item WHERE id BETWEEN ?1 AND ?1 + 999")?;
    connection.execute_batch("BEGIN")?;
    let (mut rows, mut sum) = (0, 0);
    let start = Instant::now();
    for n in 0..SCANS {
        let mut found = select.query([scatter(n, (options.rows - 1_000).max(1))])?;
        while let Some(row) = found.next()? {
            sum += row.get_ref(0)?.as_i64()? + i64::from(row.get_ref(1)?.as_str()?.is_empty());
            rows += 1;
        }
    }
    let time = start.elapsed();
    std::hint::black_box(sum);
    connection.execute_batch("COMMIT")?;
    Ok((rows, time))
}

fn bulk_insert(side: &Side, options: &Options) -> Result<(u32, Duration)> {
    let connection = side.open()?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS load; CREATE TABLE load(id INTEGER PRIMARY KEY, number INTEGER, name TEXT, value TEXT)",
    )?;
    let start = Instant::now();
    insert(&connection, "load", options.rows)?;
    Ok((u32::try_from(options.rows).unwrap_or(u32::MAX), start.elapsed()))
}

/// `threads` connections that each update rows of its own, with `reads` point selects between two updates.
fn updates(side: &Side, options: &Options, threads: u32, reads: u32) -> Result<(u32, Duration)> {
    let updates = 4_000 / threads;
    let name = side.name.as_str();
    let together = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let together = &together;
                scope.spawn(move || -> Result<()> {
                    let connection = open(name);
                    together.wait();
                    let connection = connection?;
                    let mut update =
                        connection.prepare("UPDATE item SET number = number + 1 WHERE id = ?1")?;
                    let mut select = connection.prepare("SELECT value FROM item WHERE id = ?1")?;
                    for n in 0..updates {
                        for _ in 0..reads {
                            select.query_row([scatter(n, options.rows)], |_| Ok(()))?;
                        }
                        let mine = scatter(n, options.rows / i64::from(threads)) - 1;
                        let row = mine * i64::from(threads) + i64::from(thread) + 1;
                        assert_eq!(update.execute([row])?, 1);
                    }
                    Ok(())
                })
            })
            .collect();
        together.wait();
        let start = Instant::now();
        for worker in workers {
            worker.join().unwrap_or(Err(rusqlite::Error::InvalidQuery))?;
        }
        Ok((threads * updates * (1 + reads), start.elapsed()))
    })
}
