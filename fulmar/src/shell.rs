//! A shell for SQL, as people know it from `sqlite3`.
//!
//! [`Shell`] is the whole of it apart from the terminal: it takes lines and writes to whatever it was given, so
//! that a test plays a session from a text file. A line that begins with a dot is a command to the shell
//! (`dot/`); all others gather until they are complete SQL (`script`), which is then run (`execute`) and its
//! rows written in the current format (`format`, `printer`, `grid`, `quoting`). `functions` are those that SQL has here
//! and not elsewhere. `interactive` puts a line editor in front; the command line is
//! [`commands::sql`](crate::commands::sql).

mod completion;
mod dot;
mod execute;
mod failure;
mod format;
mod functions;
mod grid;
mod import;
pub(crate) mod interactive;
mod interrupt;
mod name;
mod output;
mod printer;
pub(crate) mod progress;
pub(crate) mod quoting;
mod script;
pub(crate) mod statement;
pub(crate) mod waiting;

use std::io::{self, BufRead, Write};
use std::rc::Rc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub use format::{Format, Mode};
pub use interrupt::Interrupt;
pub use name::{Database, NameError};
pub use script::Script;

use failure::Failure;
use output::Output;
use statement::SqlError;

/// Whether the session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next line, please.
    Continue,
    /// The session is over, with this exit status if one was asked for.
    Exit(Option<u8>),
}

/// What the user can switch, apart from the format.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A script stops at its first error.
    pub bail: bool,
    /// Input is repeated in the output.
    pub echo: bool,
    /// The time each statement took is shown.
    pub timer: bool,
    /// The number of changed rows is shown.
    pub changes: bool,
    /// Counters of the query processor are shown.
    pub stats: bool,
    /// The plan of each statement is shown before it runs.
    pub query_plan: bool,
    /// The result of `EXPLAIN` is laid out as a listing of the program.
    pub explain_layout: bool,
    /// Databases are opened for reading only.
    pub read_only: bool,
    /// Long work shows how far it is.
    pub progress: bool,
    /// Before the first line of a statement, and before its other lines.
    pub prompts: (String, String),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bail: false,
            echo: false,
            timer: false,
            changes: false,
            stats: false,
            query_plan: false,
            explain_layout: true,
            read_only: false,
            progress: false,
            prompts: ("fulmar> ".into(), "   ...> ".into()),
        }
    }
}

/// A session: one connection, the settings, and where results and errors go.
pub struct Shell {
    /// Shared with the completion of names while a line is edited.
    connection: Rc<Connection>,
    database: Database,
    /// How results are written.
    pub format: Format,
    /// What the user can switch.
    pub settings: Settings,
    output: Output,
    errors: Box<dyn Write>,
    interrupt: Interrupt,
    /// How many scripts deep `.read` is.
    depth: usize,
}

impl Shell {
    /// Starts a session on a database. Results go to `output`, errors to `errors`.
    pub fn open(
        database: Database,
        settings: Settings,
        output: Box<dyn Write>,
        errors: Box<dyn Write>,
    ) -> Result<Self, OpenError> {
        let interrupt = Interrupt::default();
        let connection = connect_shell(&database, settings.read_only)?;
        interrupt.aim_at(&connection);
        Ok(Self {
            connection: Rc::new(connection),
            database,
            format: Format::default(),
            settings,
            output: Output::new(output),
            errors,
            interrupt,
            depth: 0,
        })
    }

    /// A handle that stops the running statement from another thread.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Takes one line of a script. Errors of the input are reported and counted in `script`; the error answered
    /// here says that nothing can be reported any more.
    pub fn feed(&mut self, script: &mut Script, line: &str) -> io::Result<Flow> {
        let Some(input) = script.gather(line) else { return Ok(Flow::Continue) };
        self.answer(script, &input)
    }

    /// Ends a script: a last statement without its semicolon is run.
    pub fn finish(&mut self, script: &mut Script) -> io::Result<Flow> {
        match script.rest() {
            Some(input) => self.answer(script, &input),
            None => Ok(Flow::Continue),
        }
    }

    /// Runs a whole script. It ends early at `.quit`, at an interrupt, and at its first error if the settings
    /// say so.
    pub fn run_script(&mut self, script: &mut Script, input: &mut dyn BufRead) -> io::Result<Flow> {
        let mut line = Vec::new();
        loop {
            if (self.settings.bail && script.errors() > 0) || self.interrupt.was_raised() {
                return Ok(Flow::Continue);
            }
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                return self.finish(script);
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let flow = match std::str::from_utf8(line) {
                Ok(line) => self.feed(script, line)?,
                Err(_) => {
                    let failure = Failure::Message("the line is not UTF-8 text".into());
                    let line = script.skip_line();
                    self.report(script, &failure, line)?;
                    Flow::Continue
                }
            };
            if flow != Flow::Continue {
                return Ok(flow);
            }
        }
    }

    /// Runs a dot command or a piece of SQL that came as an argument of the command line.
    pub fn run_argument(&mut self, script: &mut Script, text: &str) -> io::Result<Flow> {
        let flow = if text.starts_with('.') {
            self.feed(script, text)?
        } else {
            self.answer(script, &script::Input::Sql { text: text.to_owned(), line: 1 })?
        };
        Ok(flow)
    }

    fn answer(&mut self, script: &mut Script, input: &script::Input) -> io::Result<Flow> {
        let (outcome, line) = match input {
            script::Input::Dot { text, line } => {
                self.echo(text)?;
                (self.run_dot_command(text), *line)
            }
            script::Input::Sql { text, line } => {
                self.echo(text)?;
                (self.run_sql(text).map(|()| Flow::Continue), *line)
            }
        };
        let ended = self.output.command_ended().map_err(Failure::Output);
        match outcome.and_then(|flow| ended.map(|()| flow)) {
            Ok(flow) => Ok(flow),
            Err(Failure::Output(error)) => Err(error),
            Err(failure) => {
                self.report(script, &failure, line)?;
                Ok(Flow::Continue)
            }
        }
    }

    fn report(&mut self, script: &mut Script, failure: &Failure, line: u64) -> io::Result<()> {
        script.count_error();
        if !matches!(failure, Failure::Reported) {
            let line = (!script.is_interactive()).then_some(line);
            writeln!(self.errors, "{}", failure.report(line))?;
            self.errors.flush()?;
        }
        Ok(())
    }

    fn echo(&mut self, text: &str) -> io::Result<()> {
        if self.settings.echo { writeln!(self.output, "{text}") } else { Ok(()) }
    }

    /// Closes the current database and opens another; on an error the current one stays open.
    fn reopen(&mut self, database: Database) -> Result<(), Failure> {
        let connection = connect_shell(&database, self.settings.read_only).map_err(Failure::Open)?;
        self.interrupt.aim_at(&connection);
        self.connection = Rc::new(connection);
        self.database = database;
        Ok(())
    }
}

/// A database that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open \"{name}\": {source}")]
pub struct OpenError {
    /// As SQLite was given it.
    pub name: String,
    /// What SQLite says.
    pub source: rusqlite::Error,
}

/// `rusqlite` adds the name to some messages, and ours begin with it.
fn without_name(error: rusqlite::Error, name: &str) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(message)) => {
            let plain = message.strip_suffix(name).and_then(|message| message.strip_suffix(": "));
            let plain = plain.map(str::to_owned);
            rusqlite::Error::SqliteFailure(code, Some(plain.unwrap_or(message)))
        }
        other => other,
    }
}

/// Opens a database for a shell, whose SQL has functions of its own.
fn connect_shell(database: &Database, read_only: bool) -> Result<Connection, OpenError> {
    let connection = connect(database, read_only)?;
    match functions::register(&connection) {
        Ok(()) => Ok(connection),
        Err(source) => Err(OpenError { name: database.sqlite_name(), source }),
    }
}

/// Opens a database; one that is not there is made, unless for reading only.
pub(crate) fn connect(database: &Database, read_only: bool) -> Result<Connection, OpenError> {
    let access = if read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    };
    let name = database.sqlite_name();
    Connection::open_with_flags(&name, access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .and_then(|connection| connection.busy_timeout(Duration::ZERO).map(|()| connection))
        .map_err(|source| OpenError { source: without_name(source, &name), name })
}
