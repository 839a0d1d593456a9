//! Each file of a database is damaged in each way: the database must be refused with a message that names it, be read
//! up to the damage, or be whole; it must never answer wrongly, and what is refused must stay as it is.

use fulmar_conformance::database;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const CANTOPEN: i32 = 14;
const NOTADB: i32 = 26;

/// What the engine holds in memory before it writes a table, bytes, at most.
const ENGINE_MEMORY: usize = 20 << 20;

/// What becomes of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit of the byte at this place is another.
    Flipped(usize),
    /// It has only this many bytes.
    Cut(usize),
    /// It is gone.
    Deleted,
    /// Bytes follow that nobody wrote.
    Longer,
}

impl Damage {
    /// All that a file of these bytes is to suffer.
    fn of(bytes: &[u8]) -> Vec<Self> {
        const PLACES: usize = 6;
        let content: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let mut all = vec![Self::Deleted, Self::Longer, Self::Cut(0), Self::Cut(bytes.len() / 2)];
        all.push(Self::Cut(bytes.len().saturating_sub(1)));
        all.extend((0..PLACES.min(content.len())).map(|n| {
            let last = PLACES.min(content.len()) - 1;
            Self::Flipped(content[n * (content.len() - 1) / last.max(1)])
        }));
        all
    }

    /// What is left of the file.
    fn happen(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        match self {
            Self::Flipped(at) => bytes[at] ^= 0x10,
            Self::Cut(length) => bytes.truncate(length),
            Self::Longer => bytes.extend_from_slice(b"what nobody wrote"),
            Self::Deleted => return None,
        }
        Some(bytes)
    }
}

/// A database with tables on disk and a log, closed.
fn make(directory: &Path) {
    let connection = database::open(&format!("fulmar:{}", directory.display())).expect("opens");
    let rows = "WITH n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
                INSERT INTO t SELECT n, 'row ' || (n * 7919 % 10007), hex(n * n) FROM n;";
    connection
        .execute_batch(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, x UNIQUE, y); {rows}
             CREATE TABLE large(x); INSERT INTO large VALUES (zeroblob({ENGINE_MEMORY}))"
        ))
        .expect("fills the engine's memory");
    connection.execute_batch("UPDATE t SET y = y || '!' WHERE id % 3 = 0; DROP TABLE large").expect("runs");
}

/// The code and message of a failure.
type Failure = (i32, String);

fn failure(error: rusqlite::Error) -> Failure {
    let code = error.sqlite_error().map_or(0, |e| e.extended_code & 0xff);
    (code, error.to_string())
}

/// Commits something that the content does not show.
fn write(directory: &Path) -> Result<(), Failure> {
    let written = database::open(&format!("fulmar:{}", directory.display()))
        .and_then(|connection| connection.execute_batch("PRAGMA user_version = 7"));
    written.map_err(failure)
}

/// Everything that the database holds, or the first failure; and whether it was opened.
fn read(directory: &Path) -> (bool, Result<Vec<String>, Failure>) {
    let connection = match database::open(&format!("fulmar:{}", directory.display())) {
        Ok(connection) => connection,
        Err(error) => return (false, Err(failure(error))),
    };
    let texts = |connection: &Connection, sql: &str| -> rusqlite::Result<Vec<String>> {
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
    };
    let content =
        texts(&connection, "SELECT id || x || y FROM t NOT INDEXED ORDER BY id").and_then(|mut rows| {
            rows.extend(texts(&connection, "SELECT x FROM t ORDER BY x")?);
            rows.extend(texts(&connection, "PRAGMA integrity_check")?);
            Ok(rows)
        });
    (true, content.map_err(failure))
}

/// The files below a directory with their bytes, but for LOCK, in which whoever opens a database leaves its name.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "LOCK") {
                let bytes = fs::read(&path).expect("readable");
                found.insert(path.strip_prefix(directory).expect("below").to_path_buf(), bytes);
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.expect("removed");
}

/// A sound database, and what it holds.
struct Sound {
    directory: tempfile::TempDir,
    content: Vec<String>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Sound {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("sound");
        make(&path);
        write(&path).expect("is sound");
        // An old version that nobody came to remove: whoever writes does, but not if it refuses the rest.
        fs::write(path.join("engine/keyspaces/0/v1000"), "an old version").expect("written");
        // The engine tidies up when it opens; what it finds to tidy is not to be taken for a change that damage caused.
        let mut before = BTreeMap::new();
        for _ in 0..10 {
            let (_, content) = read(&path);
            let content = content.expect("is sound");
            let files = files(&path);
            if files == before {
                assert_eq!(content.last().map(String::as_str), Some("ok"));
                return Self { directory, content, files };
            }
            before = files;
        }
        panic!("the engine changes its files whenever it opens them");
    }

    /// What comes of opening and reading a copy with a damaged file: a verdict, or what is wrong with it.
    fn verdict(&self, file: &Path, damage: Damage) -> Result<&'static str, String> {
        let damaged = self.directory.path().join("damaged");
        copy(&self.directory.path().join("sound"), &damaged);
        let names = |message: &str| message.contains(&damaged.display().to_string());
        let mut before = self.files.clone();
        match before.get(file).and_then(|bytes| damage.happen(bytes)) {
            Some(bytes) => {
                fs::write(damaged.join(file), &bytes).expect("written");
                before.insert(file.into(), bytes);
            }
            None => {
                remove(&damaged.join(file));
                before.retain(|other, _| !other.starts_with(file));
            }
        }
        let (opened, content) = read(&damaged);
        let after = if opened { BTreeMap::new() } else { files(&damaged) };
        let written = if content.is_ok() { write(&damaged) } else { Ok(()) };
        let read_again = if content.is_ok() && written.is_ok() { Some(read(&damaged).1) } else { None };
        fs::remove_dir_all(&damaged).expect("removed");
        match content {
            Ok(content) if content == self.content => match (written, read_again) {
                (Ok(()), Some(Ok(content))) if content == self.content => Ok("harmless"),
                (Err((IOERR | CORRUPT | CANTOPEN | NOTADB, message)), _) if names(&message) => {
                    Ok("refused on writing")
                }
                (written, again) => Err(format!("after writing: {written:?}, {again:?}")),
            },
            Ok(content) if content.last().is_some_and(|last| last != "ok") => {
                Ok("noticed by integrity_check")
            }
            Ok(_) => Err("wrong answers".into()),
            Err((IOERR | CORRUPT | CANTOPEN | NOTADB, message)) => {
                if !names(&message) {
                    Err(format!("does not name the file: {message}"))
                } else if opened {
                    Ok("refused on reading")
                } else if before.iter().all(|(file, bytes)| after.get(file) == Some(bytes)) {
                    Ok("refused")
                } else {
                    Err(format!("refused, but changed: {message}"))
                }
            }
            Err((code, message)) => Err(format!("{code}: {message}")),
        }
    }
}

#[test]
fn damage_is_noticed_or_harmless() {
    let sound = Sound::new();
    assert!(sound.files.keys().any(|file| file.parent().is_some_and(|p| p.ends_with("tables"))), "no tables");
    let (mut verdicts, mut wrong) = (BTreeMap::new(), Vec::new());
    for (file, bytes) in &sound.files {
        for damage in Damage::of(bytes).into_iter() {
            match sound.verdict(file, damage) {
                Ok(verdict) => *verdicts.entry(verdict).or_insert(0) += 1,
                Err(what) => wrong.push(format!("{}, {damage:?}: {what}", file.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{verdicts:?}\n{}", wrong.join("\n"));
    assert!(verdicts["refused"] + verdicts["refused on writing"] > verdicts["harmless"], "{verdicts:?}");
}

#[test]
fn a_folder_that_is_gone_is_noticed() {
    let sound = Sound::new();
    let folders: BTreeSet<_> = sound.files.keys().flat_map(|file| file.ancestors().skip(1)).collect();
    let folders: Vec<_> = folders.into_iter().filter(|folder| *folder != Path::new("")).collect();
    assert!(folders.len() > 5, "{folders:?}");
    for folder in folders {
        let verdict = sound.verdict(folder, Damage::Deleted);
        assert!(matches!(verdict, Ok("refused" | "refused on writing")), "{}: {verdict:?}", folder.display());
    }
}
