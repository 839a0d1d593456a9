//! An ordinary SQLite file to read from.

use std::cmp::Ordering;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fulmar_sql::FileKind;
use rusqlite::{Connection, OpenFlags, ffi};

use super::copy::Side;
use super::failure::{At, Failure, Result};
use super::plan::Plan;

/// How much memory an index may take that is made at once: until its commit, it is there as a whole.
const INDEX_BYTES: u64 = 512 << 20;
/// What each row costs there beside the bytes of its key; those of all keys are no more than the file.
const INDEX_ROW_BYTES: u64 = 512;

/// A file with a read transaction open: what others write meanwhile is not seen.
pub(super) struct Source {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// As the user named it.
    pub(super) name: String,
    /// What is different once the file has changed.
    pub(super) fingerprint: String,
    size: u64,
}

impl Source {
    /// Opens a file for reading.
    pub(super) fn open(file: &Path) -> Result<Self> {
        let name = file.display().to_string();
        if name.starts_with("fulmar:") {
            return Err(Failure::Refused(format!(
                "\"{name}\" is no file but the name of a Fulmar database; expected an ordinary SQLite file first"
            )));
        }
        // The whole path is no name that SQLite reads in its own way.
        let path = file.canonicalize().map_err(Failure::file(file))?;
        match fulmar_sql::file_kind(&path).map_err(Failure::file(file))? {
            FileKind::Ordinary => {}
            FileKind::Marker(data) => {
                return Err(Failure::Refused(format!(
                    "{name}: not an ordinary SQLite file: it stands for the Fulmar database {data}"
                )));
            }
            FileKind::Other => {
                return Err(Failure::Refused(format!("{name}: not a SQLite database, or an encrypted one")));
            }
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).at(&name)?;
        connection.collation_needed(stand_in).at(&name)?;
        // A writer may come between the fingerprint and the snapshot.
        let (mut fingerprint, mut size);
        loop {
            (fingerprint, size) = fingerprint_of(&path).map_err(Failure::file(file))?;
            connection.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema").at(&name)?;
            if fingerprint_of(&path).map_err(Failure::file(file))?.0 == fingerprint {
                break;
            }
            connection.execute_batch("ROLLBACK").at(&name)?;
        }
        Ok(Self { connection, path, name, fingerprint, size })
    }

    /// What it takes to copy it into a Fulmar database.
    pub(super) fn plan(&self) -> Result<Plan> {
        self.refuse_orders_of_applications()?;
        let is_large = |rows| self.size + rows * INDEX_ROW_BYTES > INDEX_BYTES;
        Plan::of(&self.connection, is_large, &self.name)
    }

    pub(super) fn side(&self) -> Side<'_> {
        Side { connection: &self.connection, name: &self.name }
    }

    /// Says so before anything is done, rather than at the index.
    fn refuse_orders_of_applications(&self) -> Result<()> {
        let found = self.connection.query_row(
            "SELECT t.name, l.name, x.coll
             FROM sqlite_schema AS t, pragma_index_list(t.name) AS l, pragma_index_xinfo(l.name) AS x
             WHERE t.type = 'table' AND x.key AND upper(x.coll) NOT IN ('BINARY', 'NOCASE', 'RTRIM') LIMIT 1",
            [],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)),
        );
        match found {
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
            Err(error) => Err(error).at(&self.name),
            Ok((table, index, collation)) => Err(Failure::Refused(format!(
                "{}: index {index} of table {table}: its order under the collation {collation} is known only to the \
                 application, so Fulmar cannot store it; make it with BINARY, NOCASE or RTRIM",
                self.name
            ))),
        }
    }
}

/// A collation of an application's own. Tables are copied in the order of their rowids or primary keys, so it is named
/// and never asked.
pub(super) fn stand_in(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.create_collation(name, |left: &str, right: &str| -> Ordering { left.cmp(right) })
}

/// What tells one state of a file from another, and its size in bytes.
fn fingerprint_of(path: &Path) -> std::io::Result<(String, u64)> {
    let mut head = [0; 100];
    let length = File::open(path)?.take(100).read(&mut head)?;
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    // See SQLite's file format: the counters of changes and of schemas.
    let counters = if length == head.len() { (number(24), number(40)) } else { (0, 0) };
    let state =
        |file: &Metadata| format!("{} bytes of {}.{:09}", file.size(), file.mtime(), file.mtime_nsec());
    let file = fs::metadata(path)?;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log = match fs::metadata(log) {
        Ok(log) if log.size() > 0 => state(&log),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => "none".into(),
    };
    let text = format!("1: {}, change {}, schema {}, log {log}", state(&file), counters.0, counters.1);
    Ok((text, file.size()))
}

/// What SQLite says of a file whose pages are not what they were.
pub(super) fn is_damage(failure: &Failure) -> bool {
    let Failure::Sql { code, .. } = failure else { return false };
    matches!(code & 0xff, ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB | ffi::SQLITE_IOERR)
}
