//! Commands to the shell itself: a dot, a word, arguments.

mod arguments;
mod commands;
mod dump;
mod files;
mod parameter;
mod schema;
mod settings;

use std::io::Write;

use super::failure::Failure;
use super::{Flow, Shell};

pub(super) use commands::COMMANDS;
pub(super) use files::with_input;

/// A dot command.
pub(super) struct Command {
    /// The full name, without the dot.
    pub(super) name: &'static str,
    /// How many letters of the name are enough. Where two commands share them, the first in the table is meant.
    shortest: usize,
    /// The arguments, as `.help` shows them.
    arguments: &'static str,
    /// One line on what it does.
    summary: &'static str,
    /// What else `.help` says when it is asked for this command.
    details: &'static str,
    run: fn(&mut Shell, &Call<'_>) -> Result<Flow, Failure>,
}

/// A dot command as it was typed.
pub(super) struct Call<'line> {
    /// The words after the name, quotes and escapes resolved.
    arguments: Vec<String>,
    /// The text after the name, as it is.
    text: &'line str,
}

impl Call<'_> {
    fn words(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// The only argument.
    fn single(&self) -> Result<&str, Failure> {
        match self.words()[..] {
            [argument] => Ok(argument),
            _ => Err(Failure::Arguments("expected one argument".into())),
        }
    }

    /// The only argument as a switch.
    fn switch(&self) -> Result<bool, Failure> {
        switch(self.single()?)
    }

    fn none(&self) -> Result<(), Failure> {
        match self.words()[..] {
            [] => Ok(()),
            _ => Err(Failure::Arguments("expected no argument".into())),
        }
    }

    /// The only argument, or none.
    fn optional(&self) -> Result<Option<&str>, Failure> {
        match self.words()[..] {
            [] => Ok(None),
            [argument] => Ok(Some(argument)),
            _ => Err(Failure::Arguments("expected at most one argument".into())),
        }
    }
}

fn switch(word: &str) -> Result<bool, Failure> {
    match word.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "1" => Ok(true),
        "off" | "no" | "false" | "0" => Ok(false),
        _ => Err(Failure::Arguments(format!("\"{word}\" is neither \"on\" nor \"off\""))),
    }
}

impl Shell {
    /// Runs a line that begins with a dot.
    pub(super) fn run_dot_command(&mut self, line: &str) -> Result<Flow, Failure> {
        let line = line.trim_start_matches('.').trim();
        let name_end = line.find(char::is_whitespace).unwrap_or(line.len());
        let (name, text) = line.split_at(name_end);
        let command = find(name)?;
        let call = Call { arguments: arguments::split(text), text: text.trim() };
        (command.run)(self, &call).map_err(|failure| match failure {
            Failure::Arguments(why) => Failure::Message(
                format!("{why}; usage: .{} {}", command.name, command.arguments).trim_end().into(),
            ),
            other => other,
        })
    }

    /// Lists the commands, or tells all about those that `pattern` fits.
    fn help(&mut self, call: &Call<'_>) -> Result<Flow, Failure> {
        let pattern = match call.optional()? {
            Some("-all" | "--all") => Some(""),
            pattern => pattern,
        };
        let wanted = pattern.map(|pattern| pattern.trim_start_matches('.').to_lowercase());
        let mut found = false;
        for command in COMMANDS {
            let is_wanted = wanted.as_ref().is_none_or(|wanted| command.name.starts_with(wanted.as_str()));
            if !is_wanted {
                continue;
            }
            found = true;
            let head = format!(".{} {}", command.name, command.arguments);
            writeln!(self.output, "{head:<28} {}", command.summary)?;
            if wanted.is_some() {
                for line in command.details.lines() {
                    writeln!(self.output, "     {line}")?;
                }
            }
        }
        if found {
            return Ok(Flow::Continue);
        }
        Err(Failure::Message(format!("no help for \"{}\"; \".help\" lists all commands", call.text)))
    }
}

fn find(name: &str) -> Result<&'static Command, Failure> {
    let exact = COMMANDS.iter().find(|command| command.name == name);
    let abbreviated =
        || COMMANDS.iter().find(|command| name.len() >= command.shortest && command.name.starts_with(name));
    exact.or_else(abbreviated).ok_or_else(|| {
        let distance = |command: &&Command| strsim::damerau_levenshtein(command.name, name);
        let nearest = COMMANDS.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 2);
        let hint =
            nearest.map_or_else(String::new, |nearest| format!("; did you mean \".{}\"?", nearest.name));
        Failure::Message(format!("unknown command \".{name}\"{hint} (\".help\" lists all)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_mean_what_they_mean_in_sqlite3() {
        let full = |name| find(name).map(|command| command.name).ok();
        assert_eq!(full("q"), Some("quit"));
        assert_eq!(full("h"), Some("headers"));
        assert_eq!(full("hel"), Some("help"));
        assert_eq!(full("ta"), Some("tables"));
        assert_eq!(full("sch"), Some("schema"));
        assert_eq!(full("se"), Some("separator"));
        assert_eq!(full("d"), Some("dump"));
        assert_eq!(full("da"), Some("databases"));
        assert_eq!(full("e"), Some("echo"));
        assert_eq!(full("exi"), Some("exit"));
        assert_eq!(full("i"), Some("import"));
        assert_eq!(full("ind"), Some("indexes"));
        assert_eq!(full("m"), Some("mode"));
        assert_eq!(full("o"), Some("output"));
        assert_eq!(full("r"), Some("read"));
    }

    #[test]
    fn an_unknown_command_is_answered_with_the_nearest() {
        let message = |name| find(name).err().map(|failure| failure.to_string()).unwrap_or_default();
        assert!(message("tabels").contains("did you mean \".tables\"?"));
        assert!(!message("xyzzyx").contains("did you mean"));
    }
}
