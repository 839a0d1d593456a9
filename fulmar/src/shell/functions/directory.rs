//! `fsdir(PATH, DIR)`: a file or link, or a directory with all that is below it. The names are relative to DIR.

use std::ffi::{CStr, OsString, c_int};
use std::fs::{Metadata, ReadDir};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{Context, Filters, IndexConstraintOp, IndexInfo, VTabConfig};

use super::files::{Kind, content};
use super::table::{self, Rows, TableFunction};
use super::{FunctionError, value};

/// The numbers of the columns; both parameters read as NULL.
const NAME: c_int = 0;
const MODE: c_int = 1;
const MODIFIED: c_int = 2;
const DATA: c_int = 3;
const PATH: c_int = 4;
const DIRECTORY: c_int = 5;

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    table::register::<Directory>(connection, c"fsdir")
}

/// The table. A plan has a letter for each argument: `p` for the path, `d` for the directory.
struct Directory;

impl TableFunction for Directory {
    const SCHEMA: &'static CStr = c"CREATE TABLE x(name, mode, mtime, data, path HIDDEN, dir HIDDEN)";
    const TRUST: VTabConfig = VTabConfig::DirectOnly;
    type Rows = Walk;

    fn plan(conditions: &mut IndexInfo) -> rusqlite::Result<Option<String>> {
        let mut plan = String::new();
        let mut unusable = String::new();
        for (condition, mut usage) in conditions.constraints_and_usages() {
            let letter = match (condition.column(), condition.operator()) {
                (PATH, IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ) => 'p',
                (DIRECTORY, IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ) => 'd',
                _ => continue,
            };
            if !condition.is_usable() {
                unusable.push(letter);
            } else if !plan.contains(letter) {
                plan.push(letter);
                usage.set_argv_index(c_int::try_from(plan.len()).unwrap_or(c_int::MAX));
                usage.set_omit(true);
            }
        }
        if unusable.chars().any(|letter| !plan.contains(letter)) {
            return Ok(None);
        }
        if plan.contains('p') {
            conditions.set_estimated_cost(if plan.contains('d') { 10.0 } else { 100.0 });
        }
        Ok(Some(plan))
    }

    fn scan(plan: &str, arguments: &Filters<'_>) -> rusqlite::Result<Walk> {
        let argument = |wanted| plan.chars().zip(arguments.iter()).find(|&(letter, _)| letter == wanted);
        let (_, path) = argument('p').ok_or(FunctionError::NoPath)?;
        let path = value::path(path).ok_or(FunctionError::NullPath)?;
        let base = argument('d').and_then(|(_, base)| value::path(base));
        let (path, hidden) = match base {
            None => (path, 0),
            Some(base) => {
                let hidden = base.as_os_str().len() + 1;
                let mut whole: OsString = base.into_os_string();
                whole.push("/");
                whole.push(path);
                (whole.into(), hidden)
            }
        };
        Ok(Walk { path, hidden, metadata: None, open: Vec::new(), row: 0 })
    }
}

/// A walk through a directory and those below, each before what is in it.
struct Walk {
    /// Of this row, as the system finds it.
    path: PathBuf,
    /// How many bytes of each path are not part of the name.
    hidden: usize,
    /// Of this row; nothing before the first.
    metadata: Option<Metadata>,
    /// The directories that the walk is in, from the first down to the one that this row is from.
    open: Vec<ReadDir>,
    row: i64,
}

impl Walk {
    /// The path of the next row: the first one's is there already.
    fn next_path(&mut self) -> rusqlite::Result<Option<PathBuf>> {
        let Some(metadata) = &self.metadata else { return Ok(Some(self.path.clone())) };
        let unreadable = |path: &PathBuf, source| FunctionError::ReadDirectory {
            path: path.display().to_string(),
            source,
        };
        if metadata.is_dir() {
            let opened = std::fs::read_dir(&self.path).map_err(|source| unreadable(&self.path, source))?;
            self.open.push(opened);
        }
        while let Some(directory) = self.open.last_mut() {
            match directory.next() {
                Some(entry) => {
                    return Ok(Some(entry.map_err(|source| unreadable(&self.path, source))?.path()));
                }
                None => self.open.pop(),
            };
        }
        Ok(None)
    }
}

impl Rows for Walk {
    fn advance(&mut self) -> rusqlite::Result<bool> {
        let Some(path) = self.next_path()? else { return Ok(false) };
        self.path = path;
        self.row += 1;
        let metadata = self.path.symlink_metadata();
        let failed = |source| FunctionError::Stat { path: self.path.display().to_string(), source };
        self.metadata = Some(metadata.map_err(failed)?);
        Ok(true)
    }

    fn column(&self, answer: &mut Context, column: c_int) -> rusqlite::Result<()> {
        let Some(metadata) = &self.metadata else { return Ok(()) };
        match column {
            NAME => {
                let name = self.path.as_os_str().as_bytes().get(self.hidden..).unwrap_or_default();
                answer.set_result(TextBytes(name))
            }
            MODE => answer.set_result(metadata.mode()),
            MODIFIED => answer.set_result(metadata.mtime()),
            DATA => match Kind::of(metadata.mode()) {
                Kind::Regular => answer.set_result(content(&self.path)?),
                Kind::Link => match std::fs::read_link(&self.path) {
                    Ok(target) => answer.set_result(TextBytes(&target.into_os_string().into_vec())),
                    Err(_) => Ok(()),
                },
                // To open a pipe or a device could wait for ever.
                Kind::Directory | Kind::Other => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn rowid(&self) -> i64 {
        self.row
    }
}

/// A text that need not be UTF-8.
struct TextBytes<'bytes>(&'bytes [u8]);

impl rusqlite::ToSql for TextBytes<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}
