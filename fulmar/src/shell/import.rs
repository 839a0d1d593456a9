//! `.import`: the rows of a file into a table, all of them or none.

use std::io::{BufReader, Read, Write};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::dot::with_input;
use super::failure::Failure;
use super::format::Mode;
use super::progress::Progress;
use super::quoting::quoted_name;
use super::statement::{Cell, Statement};
use super::{Flow, Format, Shell};

/// How many rows of the wrong length are told one by one.
const WARNINGS: u64 = 10;

/// What the line of `.import` asks for.
struct Task {
    file: String,
    table: String,
    database: String,
    skip: u64,
    verbose: bool,
    separators: Separators,
}

/// What ends a field and a row, and whether a field may stand in quotes.
#[derive(Clone, Copy)]
struct Separators {
    field: u8,
    row: Terminator,
    quotes: bool,
}

impl Separators {
    const CSV: Self = Self { field: b',', row: Terminator::CRLF, quotes: true };
    const ASCII: Self = Self { field: 0x1f, row: Terminator::Any(0x1e), quotes: false };

    /// Those of the current mode.
    fn of(format: &Format) -> Result<Self, Failure> {
        let single = |separator: &str, what: &str| match separator.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(Failure::Message(format!(
                "the {what} separator is {separator:?}, .import needs one of a single byte"
            ))),
        };
        let field = single(&format.column_separator, "column")?;
        let row = match format.row_separator.as_str() {
            // Every reader of lines takes both kinds of line end.
            "\n" | "\r\n" => Terminator::CRLF,
            other => Terminator::Any(single(other, "row")?),
        };
        Ok(Self { field, row, quotes: format.mode != Mode::Ascii })
    }
}

impl Shell {
    pub(super) fn import(&mut self, words: &[&str]) -> Result<Flow, Failure> {
        let task = self.import_task(words)?;
        // Of a file the size is known, of a command's output it is not.
        let size = std::fs::metadata(&task.file).map_or(0, |metadata| metadata.len());
        let progress = Progress::bytes(self.settings.progress, size);
        with_input(&task.file, |input| {
            self.connection.execute_batch("SAVEPOINT import")?;
            let outcome = self.import_rows(&task, input, &progress);
            // On an error the rows so far go away, and a transaction that was open before stays so.
            let end = if outcome.is_ok() { "RELEASE import" } else { "ROLLBACK TO import; RELEASE import" };
            let ended = self.connection.execute_batch(end);
            let rows = outcome?;
            ended?;
            Ok(rows)
        })
        .and_then(|rows| {
            if task.verbose {
                writeln!(self.output, "Added {rows} rows to \"{}\"", task.table)?;
            }
            Ok(Flow::Continue)
        })
    }

    fn import_task(&self, words: &[&str]) -> Result<Task, Failure> {
        let mut names = Vec::new();
        let mut separators = None;
        let (mut database, mut skip, mut verbose) = ("main", 0, false);
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || {
                words.next().copied().ok_or_else(|| Failure::Arguments(format!("\"{word}\" lacks a value")))
            };
            match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
                Some("csv") => separators = Some(Separators::CSV),
                Some("ascii") => separators = Some(Separators::ASCII),
                Some("v") => verbose = true,
                Some("schema") => database = value()?,
                Some("skip") => {
                    let count = value()?;
                    skip = count
                        .parse()
                        .map_err(|_| Failure::Arguments(format!("\"{count}\" is no number of rows")))?;
                }
                Some(_) => return Err(Failure::Arguments(format!("unknown option \"{word}\""))),
                None => names.push(word),
            }
        }
        let [file, table] = names[..] else {
            return Err(Failure::Arguments("expected a file and a table".into()));
        };
        let separators = separators.map_or_else(|| Separators::of(&self.format), Ok)?;
        let (file, table, database) = (file.to_owned(), table.to_owned(), database.to_owned());
        Ok(Task { file, table, database, skip, verbose, separators })
    }

    /// Answers the number of rows.
    fn import_rows(
        &mut self,
        task: &Task,
        input: &mut dyn Read,
        progress: &Progress,
    ) -> Result<u64, Failure> {
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(task.separators.field)
            .terminator(task.separators.row)
            .quoting(task.separators.quotes)
            .from_reader(BufReader::new(input));
        let mut record = ByteRecord::new();
        let unreadable = |error: csv::Error| Failure::Message(format!("{}: {error}", task.file));
        for _ in 0..task.skip {
            if !reader.read_byte_record(&mut record).map_err(unreadable)? {
                break;
            }
        }
        let mut columns = self.stored_columns(&task.database, &task.table)?.names;
        if columns.is_empty() {
            if !reader.read_byte_record(&mut record).map_err(unreadable)? {
                return Err(Failure::Message(format!(
                    "{}: no row that could name the columns of the new table \"{}\"",
                    task.file, task.table
                )));
            }
            columns = column_names(&record);
            let declared: Vec<String> =
                columns.iter().map(|name| format!("{} TEXT", quoted_name(name))).collect();
            let table = format!("{}.{}", quoted_name(&task.database), quoted_name(&task.table));
            self.connection.execute_batch(&format!("CREATE TABLE {table}(\n{})", declared.join(", ")))?;
        }
        let connection = Rc::clone(&self.connection);
        let Some(mut insert) = insert_statement(&connection, task, &columns)? else { return Ok(0) };
        let (mut rows, mut uneven) = (0, 0);
        while reader.read_byte_record(&mut record).map_err(unreadable)? {
            let line = record.position().map_or(0, csv::Position::line);
            if record.len() != columns.len() {
                uneven += 1;
                if uneven <= WARNINGS {
                    let (file, expected, found) = (&task.file, columns.len(), record.len());
                    let what = if found < expected { "filling the rest with NULL" } else { "extras ignored" };
                    let warning =
                        format!("{file}:{line}: expected {expected} columns but found {found} - {what}");
                    progress.suspended(|| writeln!(self.errors, "{warning}"))?;
                }
            }
            for column in 0..columns.len() {
                insert.bind(column + 1, record.get(column).map_or(Cell::Null, Cell::Text))?;
            }
            let inserted = insert.step();
            insert.reset();
            if let Err(error) = inserted {
                return Err(Failure::Message(format!(
                    "{}:{line}: {error}; no row of the file was imported",
                    task.file
                )));
            }
            rows += 1;
            // Often enough to watch, seldom enough to cost nothing.
            if rows % 1024 == 0 {
                progress.reach(reader.position().byte());
            }
        }
        if uneven > WARNINGS {
            writeln!(
                self.errors,
                "{}: {uneven} rows had another number of columns than {}",
                task.file,
                columns.len()
            )?;
        }
        Ok(rows)
    }
}

fn insert_statement<'connection>(
    connection: &'connection rusqlite::Connection,
    task: &Task,
    columns: &[String],
) -> Result<Option<Statement<'connection>>, Failure> {
    let names: Vec<String> = columns.iter().map(|name| quoted_name(name)).collect();
    let values = vec!["?"; columns.len()].join(",");
    let table = format!("{}.{}", quoted_name(&task.database), quoted_name(&task.table));
    let sql = format!("INSERT INTO {table}({}) VALUES({values})", names.join(","));
    Ok(Statement::prepare(connection, &sql)?.0)
}

/// The fields of a first row as names of columns: an empty one gets a number, equal ones each theirs.
fn column_names(record: &ByteRecord) -> Vec<String> {
    let names: Vec<String> = record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
    let is_shared =
        |name: &str| names.iter().filter(|other| other.eq_ignore_ascii_case(name)).nth(1).is_some();
    let numbered = (1..).zip(&names).map(|(number, name)| match name.as_str() {
        "" => format!("column_{number}"),
        name if is_shared(name) => format!("{name}_{number}"),
        name => name.to_owned(),
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_name_of_its_own() {
        let record = ByteRecord::from(vec!["a", "b", "A", ""]);
        assert_eq!(column_names(&record), ["a_1", "b", "A_3", "column_4"]);
    }
}
