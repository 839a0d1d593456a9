//! From a Fulmar database into an ordinary SQLite file, which is there completely or not at all.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::copy::{Content, Position, Side, copy};
use super::failure::{At, Failure, Result};
use super::plan::{MARK, Plan};
use super::record;
use super::report::Report;
use super::source::stand_in;
use super::summary;
use crate::files::make_draft;
use crate::shell::connect;

/// What the file is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Export,
    /// With a record of what it holds.
    Backup,
}

/// So often it begins again when servers have lost the snapshot.
const MOST_LOSSES: u32 = 5;

/// Copies one snapshot of the database `name` to `file`; `force` replaces a file that is there. A server that was restarted meanwhile, or whose
/// shards others lead by now, knows the snapshot no more: then another is copied.
pub(super) fn export(name: &str, file: &Path, force: bool, purpose: Purpose) -> Result<String> {
    let mut losses = 0;
    loop {
        match export_snapshot(name, file, force, purpose) {
            Err(why) if why.is_conflict() && losses < MOST_LOSSES => losses += 1,
            done => return done,
        }
    }
}

fn export_snapshot(name: &str, file: &Path, force: bool, purpose: Purpose) -> Result<String> {
    let database = super::fulmar(name)?;
    refuse_existing(file, force)?;
    let connection = connect(&database, true)?;
    connection.collation_needed(stand_in).at(name)?;
    // From here on this is what the connection sees, whatever others commit.
    connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema").at(name)?;
    let source = Side { connection: &connection, name };
    refuse_unfinished(source)?;
    let plan = Plan::of(&connection, |_| false, name)?;
    let partial = beside(file, ".part");
    remove(&partial)?;
    make_draft(&partial, file).map_err(Failure::file(&partial))?;
    let written = write(source, &plan, &partial, purpose).and_then(|()| {
        refuse_existing(file, force)?;
        publish(&partial, file)
    });
    if written.is_err() {
        // The first error is the one to tell; a leftover is removed next time.
        let _ = remove(&partial);
    }
    written?;
    let done = if purpose == Purpose::Backup { "backed up" } else { "exported" };
    Ok(format!("{done} {} from {name} to {}", summary(&plan), file.display()))
}

fn write(source: Side<'_>, plan: &Plan, partial: &Path, purpose: Purpose) -> Result<()> {
    let shown = partial.display().to_string();
    // Its folder's whole path, so that it is no name that SQLite reads in its own way.
    let folder = folder(partial).canonicalize().map_err(Failure::file(partial))?;
    let path = folder.join(partial.file_name().unwrap_or_default());
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).at(&shown)?;
    connection.collation_needed(stand_in).at(&shown)?;
    let encoding: String =
        source.connection.query_row("PRAGMA encoding", [], |row| row.get(0)).at(source.name)?;
    // Nobody relies on the file before it is whole.
    connection
        .execute_batch(&format!(
            "PRAGMA encoding = '{encoding}'; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
             PRAGMA locking_mode = EXCLUSIVE; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON"
        ))
        .at(&shown)?;
    let target = Side { connection: &connection, name: &shown };
    let mut report = Report::new(plan.rows, 0);
    let contents = copy(source, target, plan, Position::default(), &mut report, &())?;
    compare(plan, &contents, source.name)?;
    connection.execute_batch(&super::numbers(source)?).at(&shown)?;
    if purpose == Purpose::Backup {
        record::write(target, &contents)?;
    }
    connection.close().map_err(|(_, error)| error).at(&shown)
}

/// The rows that were copied are those that were counted before in the same snapshot.
fn compare(plan: &Plan, contents: &[Content], name: &str) -> Result<()> {
    for (table, content) in plan.tables().zip(contents) {
        if table.rows != content.rows {
            return Err(Failure::Refused(format!(
                "{name}: table {} has {} rows, of which {} could be read",
                table.name, table.rows, content.rows
            )));
        }
    }
    Ok(())
}

/// Puts the file in its place, on the disk before its name.
fn publish(partial: &Path, file: &Path) -> Result<()> {
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    sync(partial)
        .and_then(|()| fs::rename(partial, file))
        .and_then(|()| sync(folder(file)))
        .map_err(Failure::file(file))
}

fn refuse_existing(file: &Path, force: bool) -> Result<()> {
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    let shown = file.display();
    if file.is_dir() {
        return Err(Failure::Refused(format!("{shown}: a folder; expected the name of a file to write")));
    }
    for companion in ["-wal", "-journal"].map(|ending| beside(file, ending)) {
        if exists(&companion) {
            return Err(Failure::Refused(format!(
                "{} exists: {shown} is in use, or holds changes of a program that crashed",
                companion.display()
            )));
        }
    }
    if exists(file) && !force {
        return Err(Failure::Refused(format!("{shown} exists; --force replaces it")));
    }
    fs::metadata(folder(file)).map(drop).map_err(Failure::file(file))
}

fn refuse_unfinished(source: Side<'_>) -> Result<()> {
    let marked = format!("SELECT count(*) FROM sqlite_schema WHERE name = '{MARK}'");
    let marks: u64 = source.connection.query_row(&marked, [], |row| row.get(0)).at(source.name)?;
    if marks == 0 {
        return Ok(());
    }
    let file: String = source
        .connection
        .query_row(&format!("SELECT source FROM {MARK}"), [], |row| row.get(0))
        .at(source.name)?;
    Err(Failure::Refused(format!("{} holds an unfinished import of {file}", source.name)))
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).map_err(Failure::file(path)),
        _ => Ok(()),
    }
}
