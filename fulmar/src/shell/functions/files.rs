//! `readfile`, `writefile` and `lsmode`.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::{DIRECT, FunctionError, value};

/// SQLite's limit for a value, in bytes. It refuses what is longer itself, so one byte more is enough of any file.
const LONGEST: u64 = 1_000_000_000;

pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_scalar_function("readfile", 1, DIRECT, |call| match value::path(call.get_raw(0)) {
        Some(path) => content(&path),
        None => Ok(None),
    })?;
    connection.create_scalar_function("writefile", -1, DIRECT, write_file)?;
    connection.create_scalar_function("lsmode", 1, FunctionFlags::SQLITE_UTF8, |call| {
        Ok(list_mode(value::integer(call.get_raw(0))))
    })
}

/// What is in a file; `None`, as in SQLite, if it cannot be opened.
pub(super) fn content(path: &Path) -> rusqlite::Result<Option<Vec<u8>>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut content = Vec::new();
    let read = file.take(LONGEST + 1).read_to_end(&mut content);
    read.map_err(|source| FunctionError::Read { path: path.display().to_string(), source })?;
    Ok(Some(content))
}

/// What a mode of POSIX says a file is. The type is in the four bits above the permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    Directory,
    Link,
    Other,
}

impl Kind {
    pub(super) fn of(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::Regular,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Link,
            _ => Self::Other,
        }
    }
}

/// Answers the number of bytes written. An error is NULL where no mode is given, as in SQLite.
fn write_file(call: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    if !(2..=4).contains(&call.len()) {
        return Err(FunctionError::WriteArguments.into());
    }
    let Some(path) = value::path(call.get_raw(0)) else { return Ok(None) };
    let data = value::text(call.get_raw(1));
    let argument = |at| (call.len() > at).then(|| value::integer(call.get_raw(at)));
    // Only these bits of a mode mean anything here.
    let mode = argument(2).map(|mode| u32::try_from(mode & 0o177_777).unwrap_or_default());
    let modified = argument(3).filter(|&seconds| seconds >= 0);

    let write = || write_entry(&path, data.as_deref(), mode.unwrap_or_default(), modified);
    let written = write().or_else(|error| match path.parent() {
        Some(folder) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(folder)?;
            write()
        }
        _ => Err(error),
    });
    let (source, mode) = match (written, mode) {
        (Err(source), Some(mode)) => (source, mode),
        (written, _) => return Ok(written.ok().flatten()),
    };
    let path = path.display().to_string();
    Err(match Kind::of(mode) {
        Kind::Link => FunctionError::Create { kind: "symlink", path, source },
        Kind::Directory => FunctionError::Create { kind: "directory", path, source },
        Kind::Regular | Kind::Other => FunctionError::Write { path, source },
    }
    .into())
}

/// Makes a file, a directory or a link; answers the number of bytes written, for a file.
fn write_entry(
    path: &Path,
    data: Option<&[u8]>,
    mode: u32,
    modified: Option<i64>,
) -> io::Result<Option<i64>> {
    let permissions = mode & 0o777;
    let written = match Kind::of(mode) {
        Kind::Link => {
            let target = data.ok_or_else(|| io::Error::other("a link without a target"))?;
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => symlink(Path::new(std::ffi::OsStr::from_bytes(target)), path)?,
            }
            // A time would be set on what it points to.
            return Ok(None);
        }
        Kind::Directory => {
            match DirBuilder::new().mode(permissions).create(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
                outcome => outcome?,
            }
            if path.metadata()?.mode() & 0o777 != permissions {
                std::fs::set_permissions(path, Permissions::from_mode(permissions))?;
            }
            None
        }
        Kind::Regular | Kind::Other => {
            let data = data.unwrap_or_default();
            let mut file = File::create(path)?;
            file.write_all(data)?;
            if mode != 0 {
                file.set_permissions(Permissions::from_mode(permissions))?;
            }
            i64::try_from(data.len()).ok()
        }
    };
    if let Some(seconds) = modified {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 },
        };
        utimensat(CWD, path, &times, AtFlags::empty())?;
    }
    Ok(written)
}

/// A mode as `ls -l` shows it.
fn list_mode(mode: i64) -> String {
    let mode = u32::try_from(mode & 0o177_777).unwrap_or_default();
    let kind = match Kind::of(mode) {
        Kind::Regular => '-',
        Kind::Directory => 'd',
        Kind::Link => 'l',
        Kind::Other => '?',
    };
    let permission = |at: u32| match mode >> at & 1 {
        0 => '-',
        _ => ['x', 'w', 'r'][at as usize % 3],
    };
    std::iter::once(kind).chain((0..9).rev().map(permission)).collect()
}
