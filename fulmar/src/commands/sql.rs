//! `fulmar sql`, which takes what `sqlite3` takes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Args, Command};

use crate::shell::statement::sqlite_version;
use crate::shell::{
    Database, Flow, Format, Mode, NameError, OpenError, Script, Settings, Shell, interactive, waiting,
};
use crate::signals;

const EXAMPLE: &str = "\
Examples:
  fulmar sql birds                          the database in the directory \"birds\"
  fulmar sql app.sqlite                     a file that SQLite made
  fulmar sql birds 'SELECT 1' '.tables'     run these and leave
  fulmar sql birds < script.sql             run a script
  fulmar sql --csv --header birds 'SELECT * FROM sightings' > sightings.csv

Options may be written with one dash, as sqlite3 has them.";

/// The options and arguments of `fulmar sql`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Options {
    /// Database: PATH or fulmar:PATH, or the path of an ordinary SQLite file; without one, a database in memory
    name: Option<String>,
    /// SQL and dot commands to run instead of reading them
    sql: Vec<String>,

    /// Values separated by 0x1F, rows by 0x1E
    #[arg(long, group = "mode")]
    ascii: bool,
    /// A grid drawn with line characters
    #[arg(long = "box", group = "mode")]
    box_: bool,
    /// Columns of equal width under their names
    #[arg(long, group = "mode")]
    column: bool,
    /// Comma-separated values
    #[arg(long, group = "mode")]
    csv: bool,
    /// Rows of an HTML table
    #[arg(long, group = "mode")]
    html: bool,
    /// An array of JSON objects
    #[arg(long, group = "mode")]
    json: bool,
    /// One value a line
    #[arg(long, group = "mode")]
    line: bool,
    /// Values joined by the separator (the default)
    #[arg(long, group = "mode")]
    list: bool,
    /// A grid as Markdown reads it
    #[arg(long, group = "mode")]
    markdown: bool,
    /// Literals of SQL
    #[arg(long, group = "mode")]
    quote: bool,
    /// A grid drawn in ASCII
    #[arg(long, group = "mode")]
    table: bool,
    /// Tab-separated values
    #[arg(long, group = "mode")]
    tabs: bool,

    /// Show the names of columns
    #[arg(long, overrides_with = "noheader")]
    header: bool,
    /// Show no names of columns
    #[arg(long)]
    noheader: bool,
    /// What separates columns
    #[arg(long, value_name = "TEXT")]
    separator: Option<String>,
    /// What separates rows
    #[arg(long, value_name = "TEXT")]
    newline: Option<String>,
    /// What is shown for NULL
    #[arg(long, value_name = "TEXT")]
    nullvalue: Option<String>,

    /// Open the database for reading only
    #[arg(long)]
    readonly: bool,
    /// Stop at the first error
    #[arg(long)]
    bail: bool,
    /// Repeat input in the output
    #[arg(long)]
    echo: bool,
    /// Show counters of the query processor
    #[arg(long)]
    stats: bool,
    /// Run this before anything else is read; may be given more than once
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    cmd: Vec<String>,
    /// Run this script first, instead of ~/.fulmarrc
    #[arg(long, value_name = "FILE")]
    init: Option<PathBuf>,
    /// Read input as a script, even on a terminal
    #[arg(long, conflicts_with = "interactive")]
    batch: bool,
    /// Prompt for input, even from a pipe
    #[arg(long)]
    interactive: bool,
    /// Show the versions of Fulmar and SQLite
    #[arg(long)]
    version: bool,
}

impl Options {
    /// The arguments of the program with the long options of `subcommand` spelled with two dashes.
    pub fn with_two_dashes(
        subcommand: &Command,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Vec<OsString> {
        let mut spelled = Vec::new();
        let mut only_values = false;
        let mut is_value = false;
        for (at, argument) in arguments.into_iter().enumerate() {
            let text = argument.to_str().unwrap_or_default();
            if std::mem::take(&mut is_value) || only_values || at < 2 {
                only_values |= at == 1 && text != subcommand.get_name();
                spelled.push(argument);
                continue;
            }
            only_values |= text == "--";
            let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).unwrap_or_default();
            let bare = name.split('=').next().unwrap_or_default();
            let option = subcommand.get_arguments().find(|option| option.get_long() == Some(bare));
            is_value = !name.contains('=')
                && option
                    .is_some_and(|option| matches!(option.get_action(), ArgAction::Set | ArgAction::Append));
            // An unknown one too, so that the message names it whole; one letter is a short option.
            let is_word = bare.len() > 1 && bare.chars().all(|letter| letter.is_ascii_alphabetic());
            spelled.push(if is_word { format!("--{name}").into() } else { argument });
        }
        spelled
    }

    fn mode(&self) -> Option<Mode> {
        [
            (self.ascii, Mode::Ascii),
            (self.box_, Mode::Box),
            (self.column, Mode::Column),
            (self.csv, Mode::Csv),
            (self.html, Mode::Html),
            (self.json, Mode::Json),
            (self.line, Mode::Line),
            (self.list, Mode::List),
            (self.markdown, Mode::Markdown),
            (self.quote, Mode::Quote),
            (self.table, Mode::Table),
            (self.tabs, Mode::Tabs),
        ]
        .into_iter()
        .find_map(|(chosen, mode)| chosen.then_some(mode))
    }

    fn format(&self) -> Format {
        let mut format = Format::default();
        if let Some(mode) = self.mode() {
            format.set_mode(mode);
            if mode == Mode::Csv {
                // As `sqlite3 -csv` has it; the line ends of RFC 4180 are for `.mode csv`.
                format.row_separator = "\n".into();
            }
        }
        if self.header || self.noheader {
            format.headers = self.header;
            format.headers_chosen = true;
        }
        let set = |chosen: &Option<String>, place: &mut String| {
            if let Some(text) = chosen {
                text.clone_into(place);
            }
        };
        set(&self.separator, &mut format.column_separator);
        set(&self.newline, &mut format.row_separator);
        set(&self.nullvalue, &mut format.null);
        format
    }
}

/// Runs `fulmar sql`; what happens to the terminal happens here.
pub fn run(options: &Options) -> ExitCode {
    if io::stderr().is_terminal() {
        fulmar_cluster::report_waits(waiting::say);
    }
    match session(options) {
        Ok(status) => ExitCode::from(status),
        // Who reads the output, `head` perhaps, has seen enough.
        Err(SessionError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone too there is nobody left to tell.
            let _ = writeln!(io::stderr(), "Error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read {0}: {1}")]
    Init(PathBuf, io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot listen to Ctrl-C: {0}")]
    Signal(#[source] io::Error),
}

/// Whether there are statements, and each only reads, as far as its first word tells.
fn only_read(sql: &[String]) -> bool {
    let reads = |sql: &String| {
        let statement = sql.trim().trim_end_matches(';');
        let word = statement.split_ascii_whitespace().next().unwrap_or_default();
        let is_one = !statement.contains(';');
        is_one && ["SELECT", "VALUES", "EXPLAIN"].iter().any(|known| known.eq_ignore_ascii_case(word))
    };
    !sql.is_empty() && sql.iter().all(reads)
}

/// Answers the exit status.
fn session(options: &Options) -> Result<u8, SessionError> {
    if options.version {
        println!("{} (SQLite {})", env!("CARGO_PKG_VERSION"), sqlite_version());
        return Ok(0);
    }
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let talks = options.sql.is_empty() && !options.batch && (on_terminal || options.interactive);
    let settings = Settings {
        bail: options.bail,
        echo: options.echo,
        stats: options.stats,
        read_only: options.readonly,
        progress: io::stderr().is_terminal(),
        ..Settings::default()
    };
    let database = Database::named(options.name.as_deref().unwrap_or_default())?;
    // Whoever mistypes a name is to see that, and no new database.
    let only_reads = options.cmd.is_empty() && options.init.is_none() && only_read(&options.sql);
    let is_ours = matches!(database, Database::Fulmar(_));
    let settings = Settings { read_only: settings.read_only || is_ours && only_reads, ..settings };
    let output = io::BufWriter::new(io::stdout());
    let mut shell = Shell::open(database, settings, Box::new(output), Box::new(io::stderr()))?;
    shell.format = options.format();
    let mut editor = talks.then(interactive::line_editor).transpose()?;
    let interrupt = shell.interrupt();
    signals::on(&[signals::SIGINT], move || {
        if interrupt.raise() {
            std::process::exit(1);
        }
    })
    .map_err(SessionError::Signal)?;

    let mut script = Script::batch();
    match play(&mut shell, &mut script, options, editor.as_mut())? {
        Flow::Exit(Some(status)) => Ok(status),
        _ if script.errors() > 0 => Ok(1),
        _ => Ok(0),
    }
}

/// Runs the initial script, the commands of the command line, and then what is asked for.
fn play(
    shell: &mut Shell,
    script: &mut Script,
    options: &Options,
    editor: Option<&mut interactive::LineEditor>,
) -> Result<Flow, SessionError> {
    if let Some((path, file)) = initial_script(options)? {
        let mut initial = Script::batch();
        let flow = shell
            .run_script(&mut initial, &mut BufReader::new(file))
            .map_err(|error| SessionError::Init(path, error))?;
        if flow != Flow::Continue {
            return Ok(flow);
        }
    }
    // What stands on the command line has no line number worth telling.
    let mut typed = Script::interactive();
    for text in options.cmd.iter().chain(&options.sql) {
        let flow = shell.run_argument(&mut typed, text)?;
        if flow != Flow::Continue {
            return Ok(flow);
        }
        if typed.errors() > 0 {
            return Ok(Flow::Exit(Some(1)));
        }
    }
    if !options.sql.is_empty() {
        return Ok(Flow::Continue);
    }
    if let Some(editor) = editor {
        return Ok(interactive::talk(shell, editor)?);
    }
    let flow = shell.run_script(script, &mut io::stdin().lock())?;
    // An interrupt ends a script before its end, whatever it was doing.
    Ok(if shell.interrupt().was_raised() { Flow::Exit(Some(1)) } else { flow })
}

fn initial_script(options: &Options) -> Result<Option<(PathBuf, File)>, SessionError> {
    if let Some(path) = &options.init {
        let file = File::open(path).map_err(|error| SessionError::Init(path.clone(), error))?;
        return Ok(Some((path.clone(), file)));
    }
    let path = std::env::home_dir().map(|home| home.join(".fulmarrc"));
    Ok(path.and_then(|path| File::open(&path).ok().map(|file| (path, file))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_may_have_one_dash_and_their_values_stay_as_they_are() {
        let command = Options::augment_args(Command::new("sql"));
        let spelled = |line: &[&str]| -> Vec<String> {
            let arguments = line.iter().map(|&argument| OsString::from(argument));
            let spelled = Options::with_two_dashes(&command, arguments);
            spelled.into_iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(
            spelled(&["fulmar", "sql", "-csv", "-cmd", "-csv", "-h", "--", "-json"]),
            ["fulmar", "sql", "--csv", "--cmd", "-csv", "-h", "--", "-json"]
        );
        assert_eq!(
            spelled(&["fulmar", "sql", "-separator=-x", "-nosuch"])[2..],
            ["--separator=-x", "--nosuch"]
        );
        assert_eq!(spelled(&["fulmar", "other", "-csv"]), ["fulmar", "other", "-csv"]);
    }
}
