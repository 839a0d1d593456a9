//! `fulmar import`, `export`, `backup` and `restore`.

use crate::ending::{BadUsage, failed};
use crate::transfer::{back_up, export, import, restore};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

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
    #[arg(long, alias = "anew")]
    force: bool,
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
    let outcome = match transfer {
        Transfer::Import(Import { file, name, force }) => import(file, name, *force),
        Transfer::Restore(Import { file, name, force }) => restore(file, name, *force),
        Transfer::Export(Export { name, file, force }) => export(name, file, *force),
        Transfer::Backup(Export { name, file, force }) => back_up(name, file, *force),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) if failure.is_bad_usage() => failed(BadUsage::new(failure)),
        Err(failure) => failed(failure),
    }
}
