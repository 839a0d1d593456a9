//! The table of all dot commands.

use super::Command;
use crate::shell::{Flow, Shell};

/// Defines a row of the table; a command whose method answers nothing lets the session continue.
macro_rules! command {
    ($name:literal, $shortest:literal, $arguments:literal, $summary:literal, $run:expr) => {
        command!($name, $shortest, $arguments, $summary, $run, "")
    };
    ($name:literal, $shortest:literal, $arguments:literal, $summary:literal, $run:expr, $details:literal) => {
        Command {
            name: $name,
            shortest: $shortest,
            arguments: $arguments,
            summary: $summary,
            details: $details,
            run: $run,
        }
    };
}

/// All commands by name.
pub(in crate::shell) const COMMANDS: &[Command] = &[
    command!("backup", 3, "?DB? FILE", "Copy a database into an ordinary SQLite file", Shell::save),
    command!("bail", 3, "on|off", "Stop a script at its first error", Shell::set_bail),
    command!("cd", 2, "DIRECTORY", "Change the working directory", Shell::change_directory),
    command!("changes", 3, "on|off", "Show how many rows a statement changed", Shell::set_changes),
    command!("databases", 2, "", "List the attached databases and their files", Shell::list_databases),
    command!(
        "dump",
        1,
        "?OPTIONS? ?PATTERN?...",
        "Write the main database as SQL",
        Shell::dump,
        "--data-only      Only INSERT statements\n\
         --newlines       Newlines in strings stay as they are\n\
         --nosys          Leave system tables out\n\
         --preserve-rowids  Write the rowids too\n\
         PATTERN is a LIKE pattern for names of tables, indexes, views and triggers."
    ),
    command!("echo", 1, "on|off", "Repeat input in the output", Shell::set_echo),
    command!("eqp", 2, "on|off", "Show the plan of each statement before it runs", Shell::set_query_plan),
    command!("exit", 2, "?STATUS?", "Leave the shell, with this exit status", Shell::exit),
    command!(
        "explain",
        3,
        "on|off|auto",
        "Lay the result of EXPLAIN out as a listing",
        Shell::set_explain_layout
    ),
    command!(
        "fullschema",
        2,
        "?--indent?",
        "Show the schema and what ANALYZE has found",
        Shell::show_full_schema
    ),
    command!("headers", 1, "on|off", "Show the names of columns", Shell::set_headers),
    command!("help", 3, "?-all? ?COMMAND?", "List the commands, or tell all about one", Shell::help),
    command!(
        "import",
        1,
        "?OPTIONS? FILE TABLE",
        "Read the rows of a file into a table",
        |shell, call| shell.import(&call.words()),
        "--ascii          Separators are the ASCII unit and record separators\n\
         --csv            Separators are comma and line end, fields may be quoted\n\
         --schema S       Into the table of database S\n\
         --skip N         Leave out the first N rows\n\
         -v               Show how many rows were read\n\
         Without --ascii or --csv, the current mode and separators apply.\n\
         A table that does not exist is created from the first row, its names.\n\
         FILE is a path, or a command after a bar (\"|gunzip -c a.csv.gz\").\n\
         Blank lines are left out.\n\
         Either all rows arrive or, after an error, none."
    ),
    command!("indexes", 2, "?TABLE?", "List the indexes, of tables LIKE TABLE", Shell::list_indexes),
    command!("indices", 5, "?TABLE?", "The same as .indexes", Shell::list_indexes),
    command!("limit", 5, "?LIMIT? ?VALUE?", "Show or change SQLite's limits", Shell::limit),
    command!(
        "mode",
        1,
        "?MODE? ?OPTIONS?",
        "Choose how results are written",
        Shell::set_mode,
        "ascii      Columns and rows separated by 0x1F and 0x1E\n\
         box        A grid drawn with line characters\n\
         column     Columns of equal width under their names\n\
         csv        Comma-separated values\n\
         html       Rows of an HTML <table>\n\
         insert     SQL that inserts into the TABLE named next\n\
         json       An array of objects\n\
         line       One value a line\n\
         list       Values joined by \".separator\"\n\
         markdown   A grid as Markdown reads it\n\
         qbox       The same as \"box --wrap 60 --quote\"\n\
         quote      Literals of SQL\n\
         table      A grid drawn in ASCII\n\
         tabs       Tab-separated values\n\
         tcl        Strings of Tcl\n\
         Options of the grids box, column, markdown and table:\n\
         --wrap N         Break values after N characters; 0 never does\n\
         --wordwrap B     Break between words, on or off\n\
         --ww             The same as --wordwrap on\n\
         --quote          Show values as literals of SQL\n\
         --noquote        Show values as they are"
    ),
    command!("nullvalue", 1, "STRING", "What is shown for NULL", Shell::set_null),
    command!(
        "once",
        2,
        "FILE",
        "Send the next result to a file",
        Shell::once,
        "FILE is a path, or a command after a bar (\"|less\").\n--bom  The file begins with a byte order mark"
    ),
    command!(
        "open",
        2,
        "?OPTIONS? ?NAME?",
        "Close the database and open another",
        Shell::open_database,
        "fulmar:PATH      A Fulmar database\n\
         file:PATH        An ordinary SQLite file, as a URI\n\
         PATH             The file, when SQLite made it; a Fulmar database otherwise\n\
         --new            Delete the file first, if it is an ordinary one\n\
         --readonly       Open for reading only"
    ),
    command!(
        "output",
        1,
        "?FILE?",
        "Send results to a file, or back to the terminal",
        Shell::redirect_output,
        "FILE is a path, \"off\", or a command after a bar (\"|less\").\n--bom  The file begins with a byte order mark"
    ),
    command!(
        "parameter",
        3,
        "COMMAND ...",
        "Manage the values of parameters in SQL",
        Shell::parameter,
        "clear             Forget all\n\
         init              Prepare the table that holds them, temp.sqlite_parameters\n\
         list              Show all\n\
         set NAME VALUE    Give one a value, an expression of SQL or else text\n\
         unset NAME        Forget one"
    ),
    command!("print", 3, "STRING...", "Write a text", Shell::print),
    command!("prompt", 4, "MAIN ?CONTINUE?", "Change the prompts", Shell::set_prompts),
    command!("quit", 1, "", "Leave the shell", Shell::quit),
    command!("read", 1, "FILE", "Run a script: a file, or the output of \"|COMMAND\"", Shell::read),
    command!(
        "restore",
        3,
        "?DB? FILE",
        "Read all tables of an ordinary SQLite file into an empty database",
        Shell::restore
    ),
    command!("save", 3, "?DB? FILE", "The same as .backup", Shell::save),
    command!(
        "schema",
        2,
        "?OPTIONS? ?PATTERN?",
        "Show the CREATE statements",
        Shell::show_schema,
        "--indent         One column a line\n\
         --nosys          Leave system tables out\n\
         PATTERN is a LIKE pattern for the tables and whatever belongs to them."
    ),
    command!("separator", 2, "COLUMN ?ROW?", "Change what separates columns and rows", Shell::set_separators),
    command!("shell", 2, "COMMAND...", "Run a command of the system", Shell::run_system_command),
    command!("show", 4, "", "Show the settings", Shell::show_settings),
    command!("stats", 2, "?on|off?", "Show counters of the query processor", Shell::stats),
    command!("system", 2, "COMMAND...", "The same as .shell", Shell::run_system_command),
    command!("tables", 2, "?PATTERN?", "List the tables and views, LIKE PATTERN", Shell::list_tables),
    command!("timeout", 5, "MILLISECONDS", "How long to wait for a locked database", Shell::set_timeout),
    command!("timer", 5, "on|off", "Show the time each statement takes", Shell::set_timer),
    command!("version", 1, "", "Show the versions of Fulmar and SQLite", Shell::show_version),
    command!(
        "width",
        1,
        "N1 N2 ...",
        "The widths of columns in a grid",
        Shell::set_widths,
        "A negative width aligns to the right, 0 leaves the width open."
    ),
];

impl Shell {
    fn quit(&mut self, call: &super::Call<'_>) -> Result<Flow, super::Failure> {
        call.none()?;
        Ok(Flow::Exit(None))
    }

    fn exit(&mut self, call: &super::Call<'_>) -> Result<Flow, super::Failure> {
        let status = call.optional()?.map(str::parse).transpose().map_err(|_| {
            super::Failure::Arguments(format!("\"{}\" is no exit status from 0 to 255", call.text))
        })?;
        Ok(Flow::Exit(status))
    }
}
