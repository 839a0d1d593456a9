//! The dot commands that reach outside: databases, scripts, files, the system.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use super::{Call, Failure};
use crate::files::make_draft;
use crate::shell::output::shell_command;
use crate::shell::progress::Progress;
use crate::shell::quoting::{quoted_name, sql_name};
use crate::shell::{Database, Flow, Script, Shell};

/// How many scripts may be reading one another before it looks like a circle.
const DEEPEST: usize = 25;

/// The byte order mark that some spreadsheets want at the beginning of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Shell {
    pub(super) fn open_database(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let mut name = None;
        let (mut fresh, mut read_only) = (false, false);
        for word in call.words() {
            match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
                Some("new") => fresh = true,
                Some("readonly") => read_only = true,
                Some(_) => return Err(Failure::Arguments(format!("unknown option \"{word}\""))),
                None if name.is_none() => name = Some(word),
                None => return Err(Failure::Arguments("expected at most one name".into())),
            }
        }
        let database = Database::named(name.unwrap_or_default())?;
        if let (true, Database::Ordinary(path)) = (fresh, &database) {
            remove_if_there(Path::new(path)).map_err(Failure::file(path))?;
        }
        let before = std::mem::replace(&mut self.settings.read_only, read_only);
        let outcome = self.reopen(database);
        if outcome.is_err() {
            self.settings.read_only = before;
        }
        outcome.map(|()| Flow::Continue)
    }

    pub(super) fn read(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let name = call.single()?;
        if self.depth >= DEEPEST {
            return Err(Failure::Message(format!(
                "\"{name}\" would be script number {} in a chain of .read; does one read itself?",
                DEEPEST + 1
            )));
        }
        let mut script = Script::batch();
        self.depth += 1;
        let flow = with_input(name, |input| Ok(self.run_script(&mut script, &mut BufReader::new(input))?));
        self.depth -= 1;
        match flow? {
            Flow::Exit(status) => Ok(Flow::Exit(status)),
            Flow::Continue if script.errors() > 0 => Err(Failure::Reported),
            Flow::Continue => Ok(Flow::Continue),
        }
    }

    pub(super) fn redirect_output(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        self.redirect_to(call, false)
    }

    pub(super) fn once(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        self.redirect_to(call, true)
    }

    fn redirect_to(&mut self, call: &Call<'_>, once: bool) -> Result<Flow, Failure> {
        let (opening, words) = match call.words().split_first() {
            Some((&("--bom" | "-bom"), rest)) => (BYTE_ORDER_MARK, rest.to_vec()),
            _ => (&b""[..], call.words()),
        };
        let target = match words[..] {
            [] if !once => "stdout".to_owned(),
            // A command may be written without quotes around it.
            [first, ..] if first.starts_with('|') => words.join(" "),
            [target] => target.to_owned(),
            _ => return Err(Failure::Arguments("expected one file".into())),
        };
        self.output.redirect(&target, once, opening).map_err(Failure::file(&target))?;
        Ok(Flow::Continue)
    }

    pub(super) fn change_directory(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let directory = call.single()?;
        std::env::set_current_dir(directory).map_err(Failure::file(directory))?;
        Ok(Flow::Continue)
    }

    pub(super) fn run_system_command(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        if call.text.is_empty() {
            return Err(Failure::Arguments("expected a command".into()));
        }
        let status =
            shell_command(call.text).stdin(Stdio::null()).status().map_err(Failure::file(call.text))?;
        if status.success() {
            return Ok(Flow::Continue);
        }
        Err(Failure::Message(format!("\"{}\" failed: {status}", call.text)))
    }

    /// Copies a database into a file of SQLite's format, which is there completely or not at all.
    pub(super) fn save(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let (database, file) = match call.words()[..] {
            [file] => ("main", file),
            [database, file] => (database, file),
            _ => return Err(Failure::Arguments("expected a file".into())),
        };
        for companion in ["-wal", "-journal"] {
            let companion = format!("{file}{companion}");
            if Path::new(&companion).exists() {
                return Err(Failure::Message(format!(
                    "\"{companion}\" exists: \"{file}\" is in use, or holds changes of a program that crashed"
                )));
            }
        }
        if let Some(folder) = Path::new(file).parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::read_dir(folder).map_err(Failure::file(file))?;
        }
        let partial = PathBuf::from(format!("{file}.partial"));
        remove_if_there(&partial)
            .and_then(|()| make_draft(&partial, Path::new(file)))
            .map_err(Failure::file(file))?;
        let progress = Progress::spinner(self.settings.progress, "copying");
        let copied = self
            .connection
            .execute(&format!("VACUUM {} INTO ?1", quoted_name(database)), [partial.to_string_lossy()])
            .map_err(Failure::from)
            .and_then(|_| std::fs::rename(&partial, file).map_err(Failure::file(file)));
        drop(progress);
        if copied.is_err() {
            // The first error is the one to tell; a leftover is overwritten next time.
            let _ = remove_if_there(&partial);
        }
        copied.map(|()| Flow::Continue)
    }

    /// Reads all tables of an ordinary SQLite file into a database that has none, in one transaction.
    pub(super) fn restore(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let (target, file) = match call.words()[..] {
            [file] => ("main", file),
            [target, file] => (target, file),
            _ => return Err(Failure::Arguments("expected a file".into())),
        };
        if target != "main" {
            return Err(Failure::Arguments(
                "only \"main\" can be restored; open the other database first".into(),
            ));
        }
        if !Path::new(file).is_file() {
            return Err(Failure::Message(format!("\"{file}\" is no file")));
        }
        let held = self.query("SELECT name FROM main.sqlite_schema LIMIT 1", &[])?;
        if let Some(Some(name)) = held.into_iter().flatten().next() {
            return Err(Failure::Message(format!(
                "the database is not empty, it has \"{name}\"; \".open\" an empty one to restore into"
            )));
        }
        if !self.connection.is_autocommit() {
            return Err(Failure::Message("a transaction is open; COMMIT or ROLLBACK first".into()));
        }
        let foreign_keys = self.query("PRAGMA foreign_keys", &[])?;
        self.connection.execute("ATTACH ?1 AS restored", [file])?;
        let progress = Progress::spinner(self.settings.progress, "restoring");
        let copied = self
            .connection
            .execute_batch("PRAGMA foreign_keys = OFF; BEGIN")
            .map_err(Failure::from)
            .and_then(|()| {
                self.copy_restored(&progress)?;
                Ok(self.connection.execute_batch("COMMIT")?)
            });
        drop(progress);
        if copied.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        // RESET has SQLite read the schema anew, and with it the virtual tables that were written into it.
        self.connection.execute_batch("PRAGMA writable_schema = RESET; DETACH restored")?;
        if foreign_keys == [[Some("1".to_owned())]] {
            self.connection.execute_batch("PRAGMA foreign_keys = ON")?;
        }
        copied.map(|()| Flow::Continue)
    }

    fn copy_restored(&self, progress: &Progress) -> Result<(), Failure> {
        let connection = Rc::clone(&self.connection);
        for pragma in ["user_version", "application_id"] {
            for value in
                self.query(&format!("PRAGMA restored.{pragma}"), &[])?.into_iter().flatten().flatten()
            {
                connection.execute_batch(&format!("PRAGMA main.{pragma} = {value}"))?;
            }
        }
        let tables = "SELECT name, sql FROM restored.sqlite_schema WHERE type = 'table' AND sql IS NOT NULL
             ORDER BY name = 'sqlite_sequence', rowid";
        for row in self.query(tables, &[])? {
            let Ok([Some(name), Some(sql)]) = <[_; 2]>::try_from(row) else { continue };
            progress.say(&format!("restoring {name}"));
            if sql.starts_with("CREATE VIRTUAL TABLE") {
                // The module must not make its shadow tables: they are copied.
                connection.execute_batch("PRAGMA writable_schema = ON")?;
                connection.execute(
                    "INSERT INTO main.sqlite_schema(type, name, tbl_name, rootpage, sql)
                     VALUES('table', ?1, ?1, 0, ?2)",
                    [&name, &sql],
                )?;
                continue;
            }
            match name.as_str() {
                // AUTOINCREMENT has made it by now, and the rows before have filled it.
                "sqlite_sequence" => connection.execute_batch("DELETE FROM main.sqlite_sequence")?,
                _ if name.starts_with("sqlite_stat") => {
                    connection.execute_batch("ANALYZE main.sqlite_schema")?
                }
                _ if name.starts_with("sqlite_") => continue,
                _ => connection.execute_batch(&sql)?,
            }
            if self.query("SELECT 1 FROM main.sqlite_schema WHERE name = ?1", &[&name])?.is_empty() {
                // Statistics of a kind that this build does not gather.
                continue;
            }
            let columns = self.stored_columns("restored", &name)?;
            let columns: Vec<String> = columns
                .rowid
                .map(str::to_owned)
                .into_iter()
                .chain(columns.names.iter().map(|name| sql_name(name)))
                .collect();
            let (table, columns) = (quoted_name(&name), columns.join(","));
            connection.execute_batch(&format!(
                "INSERT INTO main.{table}({columns}) SELECT {columns} FROM restored.{table}"
            ))?;
        }
        let others = "SELECT sql FROM restored.sqlite_schema
             WHERE sql IS NOT NULL AND type <> 'table' ORDER BY type = 'trigger', rowid";
        for sql in self.query(others, &[])?.into_iter().flatten().flatten() {
            connection.execute_batch(&sql)?;
        }
        Ok(())
    }
}

/// Gives `use_input` the bytes of a file, or after a bar the output of a command, which must then succeed.
pub(in crate::shell) fn with_input<T>(
    name: &str,
    use_input: impl FnOnce(&mut dyn Read) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(command) = name.strip_prefix('|') else {
        let mut file = BufReader::new(File::open(name).map_err(Failure::file(name))?);
        // A directory opens and cannot be read: that is to be found out before anything is done.
        file.fill_buf().map_err(Failure::file(name))?;
        return use_input(&mut file);
    };
    let mut child = shell_command(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::file(name))?;
    let outcome = match child.stdout.take() {
        Some(mut stdout) => use_input(&mut stdout),
        None => Err(Failure::Message(format!("\"{command}\" has no output"))),
    };
    let status = child.wait().map_err(Failure::file(name))?;
    let outcome = outcome?;
    if status.success() {
        Ok(outcome)
    } else {
        Err(Failure::Message(format!("\"{command}\" failed: {status}")))
    }
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
