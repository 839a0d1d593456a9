//! From an ordinary SQLite file into a Fulmar database.
//!
//! How far the import has come stands in the target, in a table of one row that each batch updates in its own commit. So
//! an import that was killed is found between two batches, and goes on there: the file being the same, so are the plan
//! and the order of rows. Others may use the target meanwhile and see what is there so far; of two imports into one
//! target, the first to commit a batch goes on.

use rusqlite::{Connection, OptionalExtension};

use super::copy::{Ledger, Position, Side, copy};
use super::failure::{At, Failure, Result};
use super::plan::{MARK, Plan};
use super::report::Report;
use super::source::{Source, stand_in};
use super::summary;
use crate::shell::quoting::quoted_name;
use crate::shell::{Database, connect};

/// In place of the fingerprint, while a target is being emptied.
const EMPTYING: &str = "being emptied";

/// Copies all of `source` into the database `name`; `anew` gives up what an unfinished import has left there.
pub(super) fn import(source: &Source, name: &str, anew: bool) -> Result<String> {
    let plan = import_all(source, name, anew).map_err(|failure| match failure {
        conflict if conflict.is_conflict() => Failure::Refused(taken_over(name)),
        other => other,
    })?;
    warn_of_orphans(source);
    Ok(format!("{} from {} into {name}", summary(&plan), source.name))
}

fn import_all(source: &Source, name: &str, anew: bool) -> Result<Plan> {
    let database = super::fulmar(name)?;
    let plan = source.plan()?;
    let target = open(&database, source)?;
    let target = Side { connection: &target, name };
    let mut unfinished = mark(target)?;
    if let (Some(_), true) = (&unfinished, anew) {
        empty(target)?;
        unfinished = None;
    }
    let position = match unfinished {
        None => {
            begin(source, target)?;
            Position::default()
        }
        Some(mark)
            if mark.fingerprint == source.fingerprint && mark.source == source.path.to_string_lossy() =>
        {
            mark.position
        }
        Some(mark) => return Err(mark.refuse(source, name)),
    };
    let finished = plan.rows_before(position.steps);
    if position != Position::default() {
        eprintln!("going on after {} of {} rows", finished + position.rows, plan.rows);
    }
    let mut report = Report::new(plan.rows, finished);
    let ledger = Row { target, fingerprint: &source.fingerprint };
    copy(source.side(), target, &plan, position, &mut report, &ledger)?;
    finish(source, &ledger, &plan)?;
    Ok(plan)
}

/// The row that says how far the import has come.
struct Row<'a> {
    target: Side<'a>,
    fingerprint: &'a str,
}

impl Ledger for Row<'_> {
    fn expect(&self, position: Position) -> Result<()> {
        match mark(self.target)? {
            Some(mark) if mark.position == position && mark.fingerprint == self.fingerprint => Ok(()),
            _ => Err(Failure::Refused(taken_over(self.target.name))),
        }
    }

    fn note(&self, position: Position) -> Result<()> {
        let update = format!("UPDATE {MARK} SET steps = ?1, rows = ?2");
        let update = self.target.connection.execute(&update, (position.steps, position.rows));
        update.map(drop).at(self.target.name)
    }
}

fn taken_over(name: &str) -> String {
    format!(
        "{name}: another program changes what is being imported; what was committed is there, and the same command goes on"
    )
}

fn open(database: &Database, source: &Source) -> Result<Connection> {
    let target = connect(database, false)?;
    target.collation_needed(stand_in).at(&source.name)?;
    let encoding: String =
        source.connection.query_row("PRAGMA encoding", [], |row| row.get(0)).at(&source.name)?;
    // The encoding is for a database that has no content yet. What is copied has been checked, or shall not be.
    target
        .execute_batch(&format!(
            "PRAGMA encoding = '{encoding}'; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON"
        ))
        .at(&database.sqlite_name())?;
    Ok(target)
}

/// How far an import has come.
struct Mark {
    source: String,
    fingerprint: String,
    position: Position,
}

impl Mark {
    fn refuse(&self, source: &Source, name: &str) -> Failure {
        let state = if self.fingerprint == EMPTYING {
            "has begun to be emptied for a new import".to_owned()
        } else if self.source == source.path.to_string_lossy() {
            format!("holds an unfinished import of {}, which has changed since", source.name)
        } else {
            format!("holds an unfinished import of {}", self.source)
        };
        Failure::Refused(format!("{name} {state}; --force removes what is there and begins from the start"))
    }
}

fn mark(target: Side<'_>) -> Result<Option<Mark>> {
    let is_there =
        target.connection.query_row("SELECT 1 FROM sqlite_schema WHERE name = ?1", [MARK], |_| Ok(()));
    if is_there.optional().at(target.name)?.is_none() {
        return Ok(None);
    }
    let read = target.connection.query_row(
        &format!("SELECT source, fingerprint, steps, rows FROM {MARK}"),
        [],
        |row| {
            let position = Position { steps: row.get(2)?, rows: row.get(3)? };
            Ok(Mark { source: row.get(0)?, fingerprint: row.get(1)?, position })
        },
    );
    read.optional().at(target.name)
}

fn begin(source: &Source, target: Side<'_>) -> Result<()> {
    let run = |sql: &str| target.connection.execute_batch(sql).at(target.name);
    run("BEGIN")?;
    refuse_content(target)?;
    run(&format!("CREATE TABLE {MARK}(source TEXT, fingerprint TEXT, steps INTEGER, rows INTEGER)"))?;
    let insert = format!("INSERT INTO {MARK} VALUES(?1, ?2, 0, 0)");
    let row = (source.path.to_string_lossy(), &source.fingerprint);
    target.connection.execute(&insert, row).at(target.name)?;
    run("COMMIT")
}

fn refuse_content(target: Side<'_>) -> Result<()> {
    let found: Option<String> = target
        .connection
        .query_row(
            "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' LIMIT 1",
            [],
            |row| row.get(0),
        )
        .optional()
        .at(target.name)?;
    match found {
        None => Ok(()),
        Some(found) => Err(Failure::Refused(format!(
            "{} is not empty, it has \"{found}\"; expected a new or empty database",
            target.name
        ))),
    }
}

/// Drops everything, the mark last, so that a kill in between is noticed.
fn empty(target: Side<'_>) -> Result<()> {
    let run = |sql: &str| target.connection.execute_batch(sql).at(target.name);
    run(&format!("UPDATE {MARK} SET fingerprint = '{EMPTYING}'"))?;
    // A virtual table takes those of its content along, a table its indexes and triggers.
    let next = format!(
        "SELECT type, name FROM sqlite_schema
         WHERE type IN ('table', 'view') AND name <> '{MARK}' AND name <> 'sqlite_sequence'
         ORDER BY type = 'table', sql NOT LIKE 'CREATE VIRTUAL TABLE%' LIMIT 1"
    );
    let next = || {
        let found = target
            .connection
            .query_row(&next, [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        found.optional().at(target.name)
    };
    while let Some((kind, name)) = next()? {
        run(&format!("DROP {kind} {}", quoted_name(&name)))?;
    }
    run(&format!("DROP TABLE {MARK}"))
}

/// Compares, takes over the numbers that applications set, and takes the mark away.
fn finish(source: &Source, ledger: &Row<'_>, plan: &Plan) -> Result<()> {
    let target = ledger.target;
    for table in plan.tables() {
        let count = format!("SELECT count(*) FROM {}", quoted_name(&table.name));
        let rows: u64 = target.connection.query_row(&count, [], |row| row.get(0)).at(target.name)?;
        if rows != table.rows {
            return Err(Failure::Refused(format!(
                "{}: table {} has {rows} rows, and {} in {}; --force begins from the start",
                target.name, table.name, table.rows, source.name
            )));
        }
    }
    let run = |sql: &str| target.connection.execute_batch(sql).at(target.name);
    run("BEGIN")?;
    ledger.expect(Position { steps: plan.steps.len(), rows: 0 })?;
    run(&super::numbers(source.side())?)?;
    run(&format!("DROP TABLE {MARK}; COMMIT"))
}

/// Rows whose parent is missing are the file's, and are copied as they are. Looked for in the file, where it costs no
/// round trips; all is imported by now, so that nothing here is an error.
fn warn_of_orphans(source: &Source) {
    let orphans = || {
        let mut statement = source
            .connection
            .prepare("SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<rusqlite::Result<Vec<(String, String, u64)>>>()
    };
    match orphans().at(&source.name) {
        Ok(orphans) => orphans.iter().for_each(|(table, parent, count)| {
            eprintln!(
                "Warning: rows of {table} without a parent in {parent}: {count}, as in {}",
                source.name
            );
        }),
        Err(why) => eprintln!("Warning: the foreign keys cannot be checked: {why}"),
    }
}
