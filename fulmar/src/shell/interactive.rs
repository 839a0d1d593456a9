//! The shell on a terminal: prompts, history, completion.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::rc::Rc;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::completion::Completion;
use super::name::Database;
use super::{Flow, Script, Shell};

/// Lines that the history remembers.
const REMEMBERED: usize = 10_000;

/// A line editor with completion and history.
pub(crate) type LineEditor = Editor<Completion, FileHistory>;

/// Makes the editor. It listens to Ctrl-C itself: whoever wants the signal listens after this.
pub(crate) fn line_editor() -> io::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(REMEMBERED)
        .and_then(|config| config.history_ignore_dups(true))
        .map_err(into_io)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor = Editor::with_config(config).map_err(into_io)?;
    if let Some(history) = history_file() {
        // The first session has none.
        let _ = editor.load_history(&history);
    }
    Ok(editor)
}

/// Talks until the person leaves.
pub(crate) fn talk(shell: &mut Shell, editor: &mut LineEditor) -> io::Result<Flow> {
    if io::stdout().is_terminal() {
        println!("Fulmar {} (SQLite {})", env!("CARGO_PKG_VERSION"), rusqlite::version());
        println!("Enter \".help\" for hints.");
        if shell.database == Database::Memory {
            println!("Connected to a transient in-memory database.");
            println!("Use \".open NAME\" to open one that stays.");
        }
    }
    let flow = converse(shell, editor);
    if let Some(history) = history_file()
        && let Err(error) = editor.append_history(&history)
    {
        writeln!(io::stderr(), "cannot save the history in {}: {error}", history.display())?;
    }
    flow
}

fn converse(shell: &mut Shell, editor: &mut LineEditor) -> io::Result<Flow> {
    let mut script = Script::interactive();
    loop {
        editor.set_helper(Some(Completion { connection: Rc::clone(&shell.connection) }));
        let (main, continuation) = &shell.settings.prompts;
        let line = editor.readline(if script.is_pending() { continuation } else { main });
        // Or a database that is closed now would stay open as long as the next line is awaited.
        editor.set_helper(None);
        shell.interrupt.clear();
        match line {
            Ok(line) => {
                if !line.trim().is_empty() {
                    editor.add_history_entry(&line).map_err(into_io)?;
                }
                let flow = shell.feed(&mut script, &line)?;
                if flow != Flow::Continue {
                    return Ok(flow);
                }
            }
            // Ctrl-C gives up what has been typed, and nothing else.
            Err(ReadlineError::Interrupted) => script.discard(),
            Err(ReadlineError::Eof) => return shell.finish(&mut script),
            Err(error) => return Err(into_io(error)),
        }
    }
}

/// `$FULMAR_HISTORY`, or a file in the home directory.
fn history_file() -> Option<PathBuf> {
    let named = std::env::var_os("FULMAR_HISTORY").map(PathBuf::from);
    named.or_else(|| std::env::home_dir().map(|home| home.join(".fulmar_history")))
}

fn into_io(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}
