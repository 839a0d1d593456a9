//! The sqllogictest files of SQLite's authors, through the `sqllogictest` crate.
//!
//! The original files are written for a runner that formats each value by the type letter of its column
//! in the file (`query IRT`), whatever type the database returned, and prints one value a line. The
//! crate asks the database for strings without telling it the letters, so the letters are handed over on
//! the side before each query.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use fulmar_locks::Mutex;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use sqllogictest::{
    Control, DB, DBOutput, DefaultColumnType as Letter, QueryExpect, Record, ResultMode, Runner, TestError,
};

use crate::database;

/// A line that stock SQLite fails too.
#[derive(Clone, Copy, Debug)]
pub struct KnownFailure {
    /// File name without `.test.gz`.
    pub file: &'static str,
    /// The line of the record's first line.
    pub line: u32,
    /// Why this is no fault of ours.
    pub reason: &'static str,
}

/// What fails on stock SQLite of the same version.
pub const KNOWN_FAILURES: &[KnownFailure] = &[KnownFailure {
    file: "evidence-slt_lang_aggfunc",
    line: 480,
    reason: "the file expects of a sum that overflows an empty result; SQLite answers the error \"integer overflow\"",
}];

/// Why a file did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no sqllogictest script.
    #[error("{path}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// Records whose outcome is not the expected one.
    #[error("{}", .0.join("\n\n"))]
    Records(Vec<String>),
}

/// What a run of one file did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Statements and queries that behaved as expected.
    pub records: usize,
    /// Known failures, which failed.
    pub known_failures: usize,
}

/// The folder of the shared files, when this machine has it.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let folder = repository.parent()?.join("shared").join("sqllogictest");
    folder.is_dir().then_some(folder)
}

/// The scripts in `folder`, in alphabetical order.
///
/// # Errors
/// When the folder cannot be listed.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".test.gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs the script `path` on the database called `name`, which should be empty.
///
/// # Errors
/// Every record that failed, with its place and what differed; at most ten.
pub fn run_file(path: &Path, name: &str) -> Result<Passed, Error> {
    const ENOUGH: usize = 10;
    let stem = path.file_name().map(|n| n.to_string_lossy().replace(".test.gz", "")).unwrap_or_default();
    let letters = Arc::new(Mutex::new(Vec::new()));
    let mut runner = Runner::new(|| {
        let letters = Arc::clone(&letters);
        async move { Ok(Database { connection: database::open(name)?, letters }) as rusqlite::Result<_> }
    });
    runner.with_hash_threshold(8);
    let mut passed = Passed::default();
    let mut failed = Vec::new();
    let value_wise = Record::Control(Control::ResultMode(ResultMode::ValueWise));
    for record in std::iter::once(value_wise).chain(parse(path)?) {
        let line = match &record {
            Record::Halt { .. } => break,
            Record::Query { expected: QueryExpect::Results { types, .. }, loc, .. } => {
                letters.lock().clone_from(types);
                loc.line()
            }
            Record::Query { loc, .. } | Record::Statement { loc, .. } => {
                letters.lock().clear();
                loc.line()
            }
            _ => 0,
        };
        let known = KNOWN_FAILURES.iter().any(|known| known.file == stem && known.line == line);
        match (runner.run(record), known) {
            (Ok(_), false) => passed.records += usize::from(line > 0),
            (Ok(_), true) => failed.push(format!("{stem}:{line}: passes, but is listed as a known failure")),
            (Err(_), true) => passed.known_failures += 1,
            (Err(error), false) => failed.push(describe(&stem, &error)),
        }
        if failed.len() == ENOUGH {
            break;
        }
    }
    if failed.is_empty() { Ok(passed) } else { Err(Error::Records(failed)) }
}

fn describe(stem: &str, error: &TestError) -> String {
    format!("{stem}: {}", error.display(false))
}

fn parse(path: &Path) -> Result<Vec<Record<Letter>>, Error> {
    let mut script = String::new();
    File::open(path)
        .and_then(|file| GzDecoder::new(file).read_to_string(&mut script))
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let script = plain(&script);
    sqllogictest::parse(&script)
        .map_err(|error| Error::Parse { path: path.to_owned(), message: error.to_string() })
}

/// The script as the crate's parser takes it: it knows no comment behind a condition and no condition before `halt`.
fn plain(script: &str) -> String {
    let mut plain = String::with_capacity(script.len());
    let mut conditions = Vec::new();
    for line in script.lines() {
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        match words.as_slice() {
            [condition @ ("onlyif" | "skipif"), label] => conditions.push((*condition, *label)),
            ["halt"] if conditions.iter().any(|(c, label)| (*c == "onlyif") != (*label == "sqlite")) => {
                // Blank lines in their place keep the numbers of those that follow.
                plain.extend(conditions.drain(..).map(|_| '\n'));
                plain.push('\n');
            }
            _ => {
                for (condition, label) in conditions.drain(..) {
                    plain.extend([condition, " ", label, "\n"]);
                }
                plain.extend([line, "\n"]);
            }
        }
    }
    plain
}

struct Database {
    connection: Connection,
    /// The type letters of the query that comes next.
    letters: Arc<Mutex<Vec<Letter>>>,
}

impl DB for Database {
    type Error = rusqlite::Error;
    type ColumnType = Letter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, rusqlite::Error> {
        let letters = self.letters.lock().clone();
        let mut statement = match self.connection.prepare(sql) {
            Err(rusqlite::Error::MultipleStatement) => {
                self.connection.execute_batch(sql)?;
                return Ok(DBOutput::StatementComplete(0));
            }
            prepared => prepared?,
        };
        let width = statement.column_count();
        let mut cursor = statement.query([])?;
        let mut rows = Vec::new();
        while let Some(row) = cursor.next()? {
            let mut line = Vec::with_capacity(width);
            for index in 0..width {
                line.push(format_value(row.get_ref(index)?, letters.get(index)));
            }
            rows.push(line);
        }
        if width == 0 {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows { types: vec![Letter::Any; width], rows })
    }

    fn engine_name(&self) -> &'static str {
        "sqlite"
    }
}

/// The original runner's rules: `I` is what `sqlite3_column_int64` makes of the value, `R` three
/// decimals, `T` the text with everything that is not printable ASCII as `@`.
fn format_value(value: ValueRef<'_>, letter: Option<&Letter>) -> String {
    match (value, letter) {
        (ValueRef::Null, _) => "NULL".to_owned(),
        (ValueRef::Integer(n), Some(Letter::FloatingPoint)) => {
            #[expect(clippy::cast_precision_loss, reason = "as sqlite3_column_double does")]
            let real = n as f64;
            three_decimals(real)
        }
        (ValueRef::Real(d), Some(Letter::FloatingPoint)) => three_decimals(d),
        (ValueRef::Integer(n), _) => n.to_string(),
        #[expect(clippy::cast_possible_truncation, reason = "as sqlite3_column_int64 does")]
        (ValueRef::Real(d), Some(Letter::Integer)) => (d as i64).to_string(),
        (ValueRef::Real(d), _) => d.to_string(),
        (ValueRef::Text(text) | ValueRef::Blob(text), Some(Letter::Integer)) => {
            leading_integer(text).to_string()
        }
        (ValueRef::Text(text) | ValueRef::Blob(text), Some(Letter::FloatingPoint)) => {
            let real: f64 = String::from_utf8_lossy(text).trim().parse().unwrap_or(0.0);
            three_decimals(real)
        }
        (ValueRef::Text([]) | ValueRef::Blob([]), _) => "(empty)".to_owned(),
        (ValueRef::Text(text) | ValueRef::Blob(text), _) => text
            .iter()
            .map(|&byte| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '@' })
            .collect(),
    }
}

/// As SQLite's own `%.3f`, which knows sixteen digits and writes zeros for the others.
fn three_decimals(real: f64) -> String {
    let scientific = format!("{real:.15e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<usize>())) {
        Some((digits, Ok(exponent))) if exponent > 15 => {
            let digits = digits.replace('.', "");
            let width = exponent + 1 + usize::from(real < 0.0);
            format!("{digits:0<width$}.000")
        }
        _ => format!("{real:.3}"),
    }
}

/// The integer that a text begins with, zero when it begins with none.
fn leading_integer(text: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    text[..sign + digits].parse().unwrap_or(0)
}
