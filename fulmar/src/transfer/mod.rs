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

use crate::ending::failed;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::shell::Database;
use copy::Side;
use export::Purpose;
use failure::{At, Failure, Result};
use plan::Plan;
use source::Source;

/// What can be transferred.
#[derive(Subcommand)]
pub enum Transfer {
    /// Copies an ordinary SQLite file into a new database
    #[command(
        after_help = "Each batch of rows is one commit. An import that was killed goes on when the same command is \
                            given again, unless the file has changed since.\n\n\
                            Example:\n  fulmar import old.db birds\n  \
                            fulmar import old.db fulmar://127.0.0.1:7400/birds"
    )]
    Import(Import),
    /// Copies a database to an ordinary SQLite file
    #[command(
        after_help = "The file holds one snapshot, whatever others write meanwhile. It appears when it is complete; \
                            given again after a kill, the command begins from the start.\n\n\
                            Example:\n  fulmar export birds new.db"
    )]
    Export(Export),
    /// Copies a database to a file that can be checked and restored
    #[command(
        after_help = "A backup is an export with a table `_fulmar_backup` of checksums: an ordinary SQLite file. It \
                            holds one snapshot, whatever others write meanwhile, and appears when it is complete.\n\n\
                            Example:\n  fulmar backup fulmar://127.0.0.1:7400/birds birds.backup"
    )]
    Backup(Export),
    /// Checks a backup and copies it into a new database
    #[command(
        after_help = "A file that is damaged is refused before anything is written. A restore that was killed goes \
                            on when the same command is given again.\n\n\
                            Example:\n  fulmar restore birds.backup birds2"
    )]
    Restore(Import),
}

/// `fulmar import`, `fulmar restore`
#[derive(Args)]
pub struct Import {
    /// The file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The database to write, which is new or empty: "fulmar:PATH", a plain path, or "fulmar://HOST:PORT/DATABASE"
    #[arg(value_name = "NAME")]
    name: String,
    /// Removes first what an unfinished import has left in NAME
    #[arg(long)]
    anew: bool,
}

/// `fulmar export`, `fulmar backup`
#[derive(Args)]
pub struct Export {
    /// The database to read: "fulmar:PATH", a plain path, or "fulmar://HOST:PORT/DATABASE"
    #[arg(value_name = "NAME")]
    name: String,
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replaces FILE if it exists
    #[arg(long)]
    force: bool,
}

/// Transfers, and says what was transferred.
pub fn run(transfer: &Transfer) -> ExitCode {
    let outcome = refuse_redirection().and_then(|()| match transfer {
        Transfer::Import(import) => bring(import, Source::open).map(|what| format!("imported {what}")),
        Transfer::Restore(restore) => bring(restore, record::open).map(|what| format!("restored {what}")),
        Transfer::Export(export) => export::export(&export.name, &export.file, export.force, Purpose::Export),
        Transfer::Backup(backup) => export::export(&backup.name, &backup.file, backup.force, Purpose::Backup),
    });
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => failed(failure),
    }
}

fn bring(import: &Import, open: impl FnOnce(&Path) -> Result<Source>) -> Result<String> {
    fulmar(&import.name)?;
    let source = open(&import.file)?;
    import::import(&source, &import.name, import.anew)
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
