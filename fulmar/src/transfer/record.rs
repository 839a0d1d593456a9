//! What a backup says that it holds, in a table of the file itself.
//!
//! `_fulmar_backup` has a row for each table, with the number of its rows and a checksum (XXH3, 128 bits) of their values in
//! the table's order, and one for the schema. It finds damage, not forgery: who changes a row on purpose can write the checksum
//! that fits.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use xxhash_rust::xxh3::Xxh3;

use super::copy::{Content, Side, read};
use super::failure::{At, Failure, Result};
use super::plan::{MARK, Plan, RECORD};
use super::report::Report;
use super::source::{Source, is_damage};

/// What it is written as; another version of Fulmar may write another.
const FORMAT: i64 = 1;

/// Writes down what `target` holds now.
pub(super) fn write(target: Side<'_>, contents: &[Content]) -> Result<()> {
    let write = || {
        target.connection.execute_batch(&format!(
            "BEGIN; CREATE TABLE {RECORD}(kind TEXT, name TEXT, rows INTEGER, checksum TEXT, PRIMARY KEY(kind, name)) \
             WITHOUT ROWID"
        ))?;
        let mut insert =
            target.connection.prepare(&format!("INSERT INTO {RECORD} VALUES(?1, ?2, ?3, ?4)"))?;
        insert.execute(("format", "", FORMAT, ""))?;
        let (objects, checksum) = schema(target.connection)?;
        insert.execute(("schema", "", objects, checksum))?;
        for content in contents {
            insert.execute(("table", &content.table, content.rows, &content.checksum))?;
        }
        target.connection.execute_batch("COMMIT")
    };
    write().at(target.name)
}

/// Opens a backup; refuses a file that does not hold what it says.
pub(super) fn open(file: &Path) -> Result<Source> {
    let open = || {
        let backup = Source::open(file)?;
        check(&backup)?;
        Ok(backup)
    };
    open().map_err(|failure| match failure {
        damage if is_damage(&damage) => Failure::Refused(format!("{damage}; the backup is damaged")),
        other => other,
    })
}

fn check(backup: &Source) -> Result<()> {
    let (file, connection) = (&backup.name, &backup.connection);
    let damaged = |what: &str| Err(Failure::Refused(format!("{file}: {what}; the backup is damaged")));
    let is_there = connection.query_row("SELECT 1 FROM sqlite_schema WHERE name = ?1", [RECORD], |_| Ok(()));
    if is_there.optional().at(file)?.is_none() {
        return Err(Failure::Refused(format!(
            "{file}: not made by `fulmar backup`; to bring in an ordinary SQLite file: fulmar import {file} NAME"
        )));
    }
    let format: Option<i64> = connection
        .query_row(&format!("SELECT rows FROM {RECORD} WHERE kind = 'format'"), [], |row| row.get(0))
        .optional()
        .at(file)?;
    match format {
        Some(FORMAT) => {}
        None => return damaged("its record is incomplete"),
        Some(other) => {
            return Err(Failure::Refused(format!(
                "{file}: a backup of format {other}; this program reads format {FORMAT}"
            )));
        }
    }
    let integrity: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).at(file)?;
    if integrity != "ok" {
        return damaged(&integrity.replace('\n', " "));
    }
    let recorded = |kind: &str, name: &str| {
        connection
            .query_row(
                &format!("SELECT rows, checksum FROM {RECORD} WHERE kind = ?1 AND name = ?2"),
                [kind, name],
                |row| Ok((row.get::<_, u64>(0)?, row.get::<_, String>(1)?)),
            )
            .optional()
            .at(file)
    };
    if recorded("schema", "")? != Some(schema(connection).at(file)?) {
        return damaged("its schema is not the one that was backed up");
    }
    let plan = Plan::of(connection, |_| false, file)?;
    let contents = read(backup.side(), &plan, &mut Report::new(plan.rows, 0))?;
    for content in &contents {
        match recorded("table", &content.table)? {
            None => return damaged(&format!("table {} is not in its record", content.table)),
            Some((rows, _)) if rows != content.rows => {
                return damaged(&format!(
                    "table {} has {} rows, {rows} were backed up",
                    content.table, content.rows
                ));
            }
            Some((_, checksum)) if checksum != content.checksum => {
                return damaged(&format!("table {} has other values than were backed up", content.table));
            }
            Some(_) => {}
        }
    }
    let tables: usize = connection
        .query_row(&format!("SELECT count(*) FROM {RECORD} WHERE kind = 'table'"), [], |row| row.get(0))
        .at(file)?;
    if tables != contents.len() {
        return damaged(&format!("{tables} tables were backed up, it has {}", contents.len()));
    }
    Ok(())
}

/// The number of a database's objects, and a checksum of the schema and of the numbers that applications set.
fn schema(connection: &Connection) -> rusqlite::Result<(u64, String)> {
    let mut digest = Xxh3::new();
    let mut add = |text: &str| {
        digest.update(&(text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    };
    for pragma in ["user_version", "application_id"] {
        let number: i64 = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
        add(&number.to_string());
    }
    add(&connection.query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0))?);
    let mut statement = connection.prepare(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema
         WHERE sql IS NOT NULL AND tbl_name NOT IN (?1, ?2) ORDER BY type, name",
    )?;
    let mut rows = statement.query([MARK, RECORD])?;
    let mut objects = 0;
    while let Some(row) = rows.next()? {
        for column in 0..4 {
            add(&row.get::<_, String>(column)?);
        }
        objects += 1;
    }
    Ok((objects, format!("{:032x}", digest.digest128())))
}
