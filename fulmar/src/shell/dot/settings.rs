//! The dot commands that change a setting.

use std::io::Write;
use std::time::Duration;

use rusqlite::limits::Limit;

use super::{Call, switch};
use crate::shell::failure::Failure;
use crate::shell::format::Mode;
use crate::shell::quoting::{sql_name, write_c_string};
use crate::shell::statement::{memory_used, sqlite_version};
use crate::shell::{Flow, Shell};

type Outcome = Result<Flow, Failure>;

impl Shell {
    pub(super) fn set_bail(&mut self, call: &Call<'_>) -> Outcome {
        self.settings.bail = call.switch()?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_changes(&mut self, call: &Call<'_>) -> Outcome {
        self.settings.changes = call.switch()?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_echo(&mut self, call: &Call<'_>) -> Outcome {
        self.settings.echo = call.switch()?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_query_plan(&mut self, call: &Call<'_>) -> Outcome {
        self.settings.query_plan = call.switch()?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_explain_layout(&mut self, call: &Call<'_>) -> Outcome {
        self.settings.explain_layout = match call.optional()? {
            None | Some("auto") => true,
            Some(word) => switch(word)?,
        };
        Ok(Flow::Continue)
    }

    pub(super) fn set_headers(&mut self, call: &Call<'_>) -> Outcome {
        self.format.headers = call.switch()?;
        self.format.headers_chosen = true;
        Ok(Flow::Continue)
    }

    pub(super) fn set_timer(&mut self, call: &Call<'_>) -> Outcome {
        self.settings.timer = call.switch()?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_null(&mut self, call: &Call<'_>) -> Outcome {
        self.format.null = call.single()?.to_owned();
        Ok(Flow::Continue)
    }

    pub(super) fn set_prompts(&mut self, call: &Call<'_>) -> Outcome {
        let (main, continuation) = &mut self.settings.prompts;
        match call.words()[..] {
            [new] => new.clone_into(main),
            [new, below] => {
                new.clone_into(main);
                below.clone_into(continuation);
            }
            _ => return Err(Failure::Arguments("expected one or two arguments".into())),
        }
        Ok(Flow::Continue)
    }

    pub(super) fn set_separators(&mut self, call: &Call<'_>) -> Outcome {
        match call.words()[..] {
            [column] => column.clone_into(&mut self.format.column_separator),
            [column, row] => {
                column.clone_into(&mut self.format.column_separator);
                row.clone_into(&mut self.format.row_separator);
            }
            _ => return Err(Failure::Arguments("expected one or two arguments".into())),
        }
        Ok(Flow::Continue)
    }

    pub(super) fn set_widths(&mut self, call: &Call<'_>) -> Outcome {
        let parse = |word: &str| {
            // Far wider than any terminal, and narrow enough to compute with.
            word.parse()
                .ok()
                .filter(|width: &i32| width.unsigned_abs() <= 1_000_000)
                .ok_or_else(|| Failure::Arguments(format!("\"{word}\" is no width from -1000000 to 1000000")))
        };
        self.format.widths = call.words().into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_timeout(&mut self, call: &Call<'_>) -> Outcome {
        let word = call.single()?;
        // SQLite counts the milliseconds in a C `int`.
        let timeout = word.parse::<u32>().ok().filter(|&milliseconds| i32::try_from(milliseconds).is_ok());
        let milliseconds =
            timeout.ok_or_else(|| Failure::Arguments(format!("\"{word}\" is no number of milliseconds")))?;
        self.connection.busy_timeout(Duration::from_millis(milliseconds.into()))?;
        Ok(Flow::Continue)
    }

    pub(super) fn set_mode(&mut self, call: &Call<'_>) -> Outcome {
        let mut format = self.format.clone();
        let mut words = call.words().into_iter();
        let mut mode = None;
        let mut options = Vec::new();
        while let Some(word) = words.next() {
            let value = |value: Option<&str>| {
                value
                    .map(str::to_owned)
                    .ok_or_else(|| Failure::Arguments(format!("\"{word}\" lacks a value")))
            };
            match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
                Some("wrap") => {
                    let width = value(words.next())?;
                    let parsed = width
                        .parse::<usize>()
                        .map_err(|_| Failure::Arguments(format!("\"{width}\" is no number of characters")))?;
                    options.push(GridOption::Wrap(parsed));
                }
                Some("wordwrap") => options.push(GridOption::WordWrap(switch(&value(words.next())?)?)),
                Some("ww") => options.push(GridOption::WordWrap(true)),
                Some("quote") => options.push(GridOption::Quote(true)),
                Some("noquote") => options.push(GridOption::Quote(false)),
                Some(_) => return Err(Failure::Arguments(format!("unknown option \"{word}\""))),
                None if mode.is_none() => mode = Some(word),
                None if mode.is_some_and(|mode| Mode::named(mode) == Some(Mode::Insert)) => {
                    format.table = sql_name(word);
                }
                None => return Err(Failure::Arguments(format!("unexpected argument \"{word}\""))),
            }
        }
        if mode.is_none() && options.is_empty() {
            writeln!(self.output, "current output mode: {format}")?;
            return Ok(Flow::Continue);
        }
        match mode {
            Some("qbox") => {
                format.set_mode(Mode::Box);
                format.quote = true;
            }
            Some(name) => format.set_mode(Mode::named(name).ok_or_else(|| {
                let names: Vec<&str> = Mode::ALL.into_iter().map(Mode::name).collect();
                Failure::Arguments(format!("no mode \"{name}\", expected one of {} qbox", names.join(" ")))
            })?),
            None => {}
        }
        for option in options {
            match option {
                GridOption::Wrap(width) => format.wrap = width,
                GridOption::WordWrap(on) => format.word_wrap = on,
                GridOption::Quote(on) => format.quote = on,
            }
        }
        self.format = format;
        Ok(Flow::Continue)
    }

    pub(super) fn limit(&mut self, call: &Call<'_>) -> Outcome {
        let parse = |word: &str| {
            word.parse::<i32>().map_err(|_| Failure::Arguments(format!("\"{word}\" is no number")))
        };
        let words = call.words();
        let (name, value) = match words[..] {
            [] => (None, None),
            [name] => (Some(name), None),
            [name, value] => (Some(name), Some(parse(value)?)),
            _ => return Err(Failure::Arguments("expected at most two arguments".into())),
        };
        let mut found = false;
        for (limit_name, limit) in LIMITS {
            if name.is_some_and(|name| !limit_name.starts_with(&name.to_ascii_lowercase())) {
                continue;
            }
            found = true;
            if let Some(value) = value {
                self.connection.set_limit(limit, value)?;
            }
            writeln!(self.output, "{limit_name:>20} {}", self.connection.limit(limit)?)?;
        }
        match name {
            Some(name) if !found => Err(Failure::Arguments(format!("no limit \"{name}\""))),
            _ => Ok(Flow::Continue),
        }
    }

    pub(super) fn stats(&mut self, call: &Call<'_>) -> Outcome {
        match call.optional()? {
            Some(word) => self.settings.stats = switch(word)?,
            None => {
                let (now, most) = memory_used();
                writeln!(self.output, "Memory Used:                         {now} (max {most}) bytes")?;
            }
        }
        Ok(Flow::Continue)
    }

    pub(super) fn show_settings(&mut self, call: &Call<'_>) -> Outcome {
        call.none()?;
        let on_off = |on| if on { "on" } else { "off" };
        let quoted = |text: &str| {
            let mut quoted = Vec::new();
            // Writing to a vector cannot fail.
            let _ = write_c_string(&mut quoted, text.as_bytes());
            String::from_utf8_lossy(&quoted).into_owned()
        };
        let widths: Vec<String> = self.format.widths.iter().map(i32::to_string).collect();
        let shown = [
            ("echo", on_off(self.settings.echo).to_owned()),
            ("eqp", on_off(self.settings.query_plan).to_owned()),
            ("explain", if self.settings.explain_layout { "auto" } else { "off" }.to_owned()),
            ("headers", on_off(self.format.headers).to_owned()),
            ("mode", self.format.to_string()),
            ("nullvalue", quoted(&self.format.null)),
            ("output", self.output.name().to_owned()),
            ("colseparator", quoted(&self.format.column_separator)),
            ("rowseparator", quoted(&self.format.row_separator)),
            ("stats", on_off(self.settings.stats).to_owned()),
            ("width", widths.join(" ")),
            ("filename", self.database.sqlite_name()),
        ];
        for (name, value) in shown {
            writeln!(self.output, "{name:>12}: {value}")?;
        }
        Ok(Flow::Continue)
    }

    pub(super) fn show_version(&mut self, call: &Call<'_>) -> Outcome {
        call.none()?;
        writeln!(self.output, "Fulmar {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(self.output, "SQLite {}", sqlite_version())?;
        Ok(Flow::Continue)
    }

    pub(super) fn print(&mut self, call: &Call<'_>) -> Outcome {
        writeln!(self.output, "{}", call.words().join(" "))?;
        Ok(Flow::Continue)
    }
}

enum GridOption {
    Wrap(usize),
    WordWrap(bool),
    Quote(bool),
}

const LIMITS: [(&str, Limit); 12] = [
    ("length", Limit::SQLITE_LIMIT_LENGTH),
    ("sql_length", Limit::SQLITE_LIMIT_SQL_LENGTH),
    ("column", Limit::SQLITE_LIMIT_COLUMN),
    ("expr_depth", Limit::SQLITE_LIMIT_EXPR_DEPTH),
    ("compound_select", Limit::SQLITE_LIMIT_COMPOUND_SELECT),
    ("vdbe_op", Limit::SQLITE_LIMIT_VDBE_OP),
    ("function_arg", Limit::SQLITE_LIMIT_FUNCTION_ARG),
    ("attached", Limit::SQLITE_LIMIT_ATTACHED),
    ("like_pattern_length", Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH),
    ("variable_number", Limit::SQLITE_LIMIT_VARIABLE_NUMBER),
    ("trigger_depth", Limit::SQLITE_LIMIT_TRIGGER_DEPTH),
    ("worker_threads", Limit::SQLITE_LIMIT_WORKER_THREADS),
];
