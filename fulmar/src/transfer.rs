//! `fulmar import`, `export`, `backup` and `restore`: between ordinary SQLite files and Fulmar databases.
//!
//! All four are one copy, made with SQL on two connections, so that they work on a directory and on a server alike. A
//! `plan` lists what is to be done, in an order that depends on the source alone: the tables, their rows, then the
//! indexes, views and triggers. `copy` carries it out in batches of bounded memory, each of which is one commit.
//!
//! - `import` writes into the target, with each batch, how far it has come, and goes on there after a kill.
//! - `export` reads one snapshot and renames the finished file.
//! - A backup is an export with a `record` of what it holds: an ordinary SQLite file with one table more.
//! - To restore is to check the record and then to import.
//!
//! Values are handed from statement to statement as SQLite has them: text that is not valid in the database's encoding, rowids
//! without a column, and the tables inside of full-text indexes and R-Trees arrive as they were.

mod copy;
mod export;
mod failure;
mod import;
mod plan;
mod record;
mod report;
mod source;

use std::path::Path;

use crate::shell::Database;
use copy::Side;
use export::Purpose;
use failure::{At, Failure, Result};
use plan::Plan;
use source::Source;

/// Copies an ordinary SQLite file into a new database, and answers what that was. If it is told to begin `anew`, what an unfinished import
/// has left there is removed first.
pub(crate) fn import(file: &Path, name: &str, anew: bool) -> Result<String> {
    bring(file, Source::open, name, anew).map(|what| format!("imported {what}"))
}

/// Checks a backup, and copies it likewise.
pub(crate) fn restore(file: &Path, name: &str, anew: bool) -> Result<String> {
    bring(file, record::open, name, anew).map(|what| format!("restored {what}"))
}

/// Copies a database to an ordinary SQLite file, which takes the place of one that is there if that is `forced`.
pub(crate) fn export(name: &str, file: &Path, forced: bool) -> Result<String> {
    refuse_redirection()?;
    export::export(name, file, forced, Purpose::Export)
}

/// The same with a record of what it holds.
pub(crate) fn back_up(name: &str, file: &Path, forced: bool) -> Result<String> {
    refuse_redirection()?;
    export::export(name, file, forced, Purpose::Backup)
}

fn bring(file: &Path, open: impl FnOnce(&Path) -> Result<Source>, name: &str, anew: bool) -> Result<String> {
    refuse_redirection()?;
    fulmar(name)?;
    import::import(&open(file)?, name, anew)
}

/// Files are meant as files here.
fn refuse_redirection() -> Result<()> {
    match std::env::var_os("FULMAR_DATABASES") {
        Some(patterns) if !patterns.is_empty() => Err(Failure::Refused(
            "FULMAR_DATABASES is set, so files could be taken for Fulmar databases; \
             begin the command with: env -u FULMAR_DATABASES"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// The Fulmar database that a name means.
fn fulmar(name: &str) -> Result<Database> {
    let database = Database::named(name)?;
    match database {
        Database::Fulmar(_) => Ok(database),
        Database::Memory | Database::Ordinary(_) => Err(Failure::Refused(format!(
            "\"{name}\" is no Fulmar database; expected \"fulmar:PATH\" or \"fulmar://HOST:PORT/DATABASE\""
        ))),
    }
}

/// Statements that set the numbers which applications keep in a database.
fn numbers(source: Side<'_>) -> Result<String> {
    let mut statements = String::new();
    for pragma in ["user_version", "application_id"] {
        let number: i64 =
            source.connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0)).at(source.name)?;
        statements.push_str(&format!("PRAGMA {pragma} = {number};"));
    }
    Ok(statements)
}

/// What a plan has copied.
fn summary(plan: &Plan) -> String {
    let counted =
        |count: u64, what: &str, many: &str| format!("{count} {}", if count == 1 { what } else { many });
    let count = |kind: &str| plan.objects.get(kind).copied().unwrap_or(0);
    let mut text =
        format!("{} with {}", counted(count("table"), "table", "tables"), counted(plan.rows, "row", "rows"));
    for (kind, many) in [("index", "indexes"), ("view", "views"), ("trigger", "triggers")] {
        if count(kind) > 0 {
            text.push_str(&format!(", {}", counted(count(kind), kind, many)));
        }
    }
    text
}
